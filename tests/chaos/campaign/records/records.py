"""What the campaign needs of a store of records."""


ANY_PORT = "127.0.0.1:0"


class Records:
    """Made before the links, which lead to it; start() once the links are there."""

    # The class of its links: faults of them are named WAY_CLASS.
    link_class = ""
    # Whether it has a schema that `idempotencyd migrate` changes.
    has_schema = False
    # Whether `idempotencyd migrate` prepares it without a schema, before the first start.
    is_prepared = False

    def targets(self):
        """{name of a link: (where it listens, its target)}, as ChaosProxy has them."""
        raise NotImplementedError

    def is_link(self, name):
        """Whether it leads daemons to the records."""
        return name in self.targets()

    def is_idle(self, name):
        """Whether a link of targets() carries nothing as long as the roles stay."""
        del name
        return False

    def start(self, links):
        """`links` lead to its targets. Returns once it can be used."""

    def url(self, daemon):
        """The --store of the daemon of that name."""
        raise NotImplementedError

    def wait_until_healthy(self):
        """After the last fault: returns once every part of it serves again."""

    def dead(self):
        """The names of its processes that ended by themselves."""
        return []

    def stop(self):
        pass
