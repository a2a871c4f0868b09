"""A proxy of the shape of Istio's sidecars, and an EnvoyFilter in it."""


def applied(envoy_filter, bootstrap):
    """A bootstrap of the shape of Istio's sidecars with the patches of an EnvoyFilter: those
    operations that the command uses, as Istio documents them."""
    listener = bootstrap["static_resources"]["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    vhost = manager["route_config"]["virtual_hosts"][0]
    for patch in envoy_filter["spec"]["configPatches"]:
        kind, operation = patch["applyTo"], patch["patch"]["operation"]
        value = patch["patch"]["value"]
        if kind == "CLUSTER" and operation == "ADD":
            bootstrap["static_resources"]["clusters"].append(value)
        elif kind == "HTTP_FILTER" and operation == "INSERT_FIRST":
            manager["http_filters"].insert(0, value)
        elif kind == "HTTP_FILTER" and operation == "INSERT_BEFORE":
            name = patch["match"]["listener"]["filterChain"]["filter"]["subFilter"]["name"]
            at = [one["name"] for one in manager["http_filters"]].index(name)
            manager["http_filters"].insert(at, value)
        elif kind == "NETWORK_FILTER" and operation == "MERGE":
            manager.update(value["typed_config"])
        elif kind == "HTTP_ROUTE" and operation == "INSERT_FIRST":
            assert patch["match"]["routeConfiguration"]["vhost"]["name"] == vhost["name"]
            vhost["routes"].insert(0, value)
        else:
            raise AssertionError(f"{kind} {operation} is not known")
    return bootstrap


def sidecar(port, processor):
    """Istio's names: the inbound listener of a pod with a service on `port`."""
    def cluster(name, to):
        return {"name": name, "type": "STRICT_DNS", "load_assignment": {
            "cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
                "socket_address": {"address": "127.0.0.1", "port_value": to}}}}]}]}}
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
                 ".HttpConnectionManager",
        "stat_prefix": "inbound",
        # Istio's default (pathNormalization: BASE).
        "normalize_path": True,
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{
            "name": f"inbound|http|{port}", "domains": ["*"], "routes": [
                {"name": "default", "match": {"prefix": "/"},
                 "route": {"cluster": f"inbound|{port}||"}}]}]}}
    return {"admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
            "static_resources": {
                "listeners": [{"name": "inbound", "address": {"socket_address": {
                    "address": "127.0.0.1", "port_value": 0}},
                    "filter_chains": [{"filters": [{
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": manager}]}]}],
                "clusters": [cluster(f"inbound|{port}||", port), cluster(processor, 1)]}}
