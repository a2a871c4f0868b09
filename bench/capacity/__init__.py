"""Plans for more load than one machine makes: a model of N shards, from measured figures. See
docs/scaling.md."""
