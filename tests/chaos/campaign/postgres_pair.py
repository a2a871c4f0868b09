"""A Postgres primary and its synchronous standby, of which either can become the other."""

_STREAMING = "SELECT count(*) > 0 FROM pg_stat_replication WHERE state = 'streaming'"


class PostgresPair:
    """`nodes` are two, not started; begin() makes the first one the primary."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.primary, self.standby = nodes

    def begin(self):
        self.primary.init()

    def attach_standby(self):
        """Makes a new standby; later commits wait for it."""
        self.standby.copy_from(self.primary)
        self.primary.wait_until(_STREAMING)
        self._wait_for_standby_on("standby")

    def _wait_for_standby_on(self, names):
        self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.sql("SELECT pg_reload_conf()")

    def wait_until_caught_up(self):
        """The standby has everything that any session can have seen at the primary by now."""
        now = self.primary.sql("SELECT pg_current_wal_flush_lsn()")
        self.primary.wait_until("SELECT bool_or(sync_state = 'sync' AND flush_lsn >= "
                                f"'{now}') FROM pg_stat_replication")

    def fail_over(self):
        """The standby becomes the primary; the old one is fenced, that is, ended for good.

        It does not wait for the standby. After a crash, or when a waiting session was ended,
        commits
        can be seen that the standby does not have; the promotion then reverts them, and
        no caller may have received any of them as durable.
        """
        self.primary.stop_immediate()
        self.standby.sql("SELECT pg_promote(true, 30)")
        self.primary, self.standby = self.standby, self.primary
        # Its configuration is the old primary's, and there is no standby yet.
        self._wait_for_standby_on("")

    def restart_primary(self):
        self.primary.stop_immediate()
        self.primary.start()

    def kill_9_primary(self):
        self.primary.kill_9()
        self.primary.start()

    def stop(self):
        for node in self.nodes:
            node.stop_immediate()
