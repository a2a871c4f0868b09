module idemleasecharges

go 1.26.0

require (
	github.com/jackc/pgx/v5 v5.12.0
	github.com/repenguin22/idemlease v1.1.0
	github.com/repenguin22/idemlease/grpcidem v1.1.0
	github.com/repenguin22/idemlease/pgstore v1.1.0
	peers v0.0.0
)
