"""The stores that hold the daemons' records, one module for each kind."""
