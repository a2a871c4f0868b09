"""Records in the pair of Postgres servers that also has the ledger."""

from .records import ANY_PORT, Records


class PostgresRecords(Records):
    link_class = "postgres"
    has_schema = True

    def __init__(self, folder, daemons):
        self._targets = {f"daemon{d}-pg{n}":
                         (ANY_PORT, f"unix:{folder / f'pg{n}' / '.s.PGSQL.5432'}")
                         for d in daemons for n in (0, 1)}
        self._links = None

    def targets(self):
        return self._targets

    def start(self, links):
        self._links = links

    def url(self, daemon):
        hosts = ",".join(self._links.address(f"{daemon}-pg{n}") for n in (0, 1))
        return (f"postgresql://postgres@{hosts}/idem"
                "?target_session_attrs=read-write&sslmode=disable&gssencmode=disable")
