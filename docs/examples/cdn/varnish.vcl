# Varnish 6 or newer, with vmod xkey (varnish-modules), in front of mediastack. The service has:
#   SERVICE_CDN_PURGE=surrogate  SERVICE_CDN_PURGE_URL=http://ADDRESS-OF-VARNISH  SERVICE_CDN_PURGE_KEY=change-this-key
#   SERVICE_TRUSTED_PROXIES=NETWORK-OF-VARNISH
# Change: the backends, the networks of purgers, and the key.
vcl 4.1;

import directors;
import std;
import xkey;

probe ready {
    .url = "/openapi.json";
    .interval = 2s;
    .timeout = 2s;
    .window = 3;
    .threshold = 2;
    .initial = 2;
}

# The replicas. In a cluster, one backend with the name of the Service is enough.
backend replica1 {
    .host = "192.0.2.1";
    .port = "8080";
    .probe = ready;
    .first_byte_timeout = 120s; # GET /events waits up to a minute
}
backend replica2 {
    .host = "192.0.2.2";
    .port = "8080";
    .probe = ready;
    .first_byte_timeout = 120s;
}

# The networks of the replicas, which send purges.
acl purgers {
    "192.0.2.0"/24;
}

sub vcl_init {
    new replicas = directors.round_robin();
    replicas.add_backend(replica1);
    replicas.add_backend(replica2);
}

sub vcl_recv {
    set req.backend_hint = replicas.backend();

    if (req.method == "PURGE") {
        if (client.ip !~ purgers || req.http.Authorization != "Bearer change-this-key") {
            return (synth(403, "Forbidden"));
        }
        if (req.http.Surrogate-Key !~ "[0-9a-z]") {
            return (synth(400, "No Surrogate-Key"));
        }
        set req.http.X-Purged = xkey.purge(req.http.Surrogate-Key);
        return (synth(200, "Purged " + req.http.X-Purged));
    }

    # Everything that is no file, and what a signature opens, is for one client.
    if ((req.method != "GET" && req.method != "HEAD") || req.url !~ "^/media/file/" || req.url ~ "[?&](signature|expires)=") {
        return (pass);
    }

    # Of the parameters only `v` means something, so no other one makes a second copy.
    if (req.url ~ "[?&]v=[0-9a-f]{12}(&|$)") {
        set req.url = regsub(req.url, "\?.*", "") + "?v=" + regsub(req.url, ".*[?&]v=([0-9a-f]{12})(&.*)?$", "\1");
    } else {
        set req.url = regsub(req.url, "\?.*", "");
    }

    # Pictures that depend on Accept have one copy for each of these, not for each browser.
    if (req.http.Accept ~ "image/avif" && req.http.Accept ~ "image/webp") {
        set req.http.Accept = "image/avif,image/webp,image/*,*/*;q=0.8";
    } elsif (req.http.Accept ~ "image/avif") {
        set req.http.Accept = "image/avif,image/*,*/*;q=0.8";
    } elsif (req.http.Accept ~ "image/webp") {
        set req.http.Accept = "image/webp,image/*,*/*;q=0.8";
    } else {
        set req.http.Accept = "*/*";
    }
    unset req.http.Authorization;
    unset req.http.Cookie;
    unset req.http.Origin; # the answers are the same for all origins
    return (hash);
}

# The host is not a part of the key, and neither is the name at the end of the path: the service ignores both. So nobody fills the cache with copies.
sub vcl_hash {
    hash_data(regsub(req.url, "^(/media/file/[^/]+/[^/]+/)[^/?]+", "\1"));
    return (lookup);
}

sub vcl_backend_response {
    if (bereq.uncacheable) {
        return (deliver);
    }
    if (beresp.status != 200 || !beresp.http.Surrogate-Key || beresp.http.CDN-Cache-Control !~ "^max-age=[1-9][0-9]*$") {
        # Without tags nothing could purge it. Requests that come meanwhile do not wait for each other, and a file that comes later is kept.
        set beresp.ttl = 60s;
        set beresp.uncacheable = true;
        return (deliver);
    }
    if (std.integer(beresp.http.Content-Length, 0) > 100000000) {
        # A large file would displace thousands of small ones. Its ranges are read from the service.
        return (pass(60s));
    }
    set beresp.ttl = std.duration(regsub(beresp.http.CDN-Cache-Control, "^max-age=", "") + "s", 0s);
    set beresp.grace = 0s;
    set beresp.keep = 0s;
    set beresp.http.xkey = beresp.http.Surrogate-Key;
    # These are of the request that was first.
    unset beresp.http.X-Request-Id;
    unset beresp.http.RateLimit;
    unset beresp.http.RateLimit-Policy;
    return (deliver);
}

# A replica that has just ended: the other one answers.
sub vcl_backend_error {
    if (bereq.retries == 0 && (bereq.method == "GET" || bereq.method == "HEAD")) {
        return (retry);
    }
}

sub vcl_deliver {
    if (obj.uncacheable) {
        set resp.http.Cache-Status = "varnish; fwd=bypass";
    } elsif (obj.hits > 0) {
        set resp.http.Cache-Status = "varnish; hit";
    } else {
        set resp.http.Cache-Status = "varnish; fwd=miss";
    }
    # The edge is as current as the service. With an age of more than max-age, no browser would keep the file.
    unset resp.http.Age;
    unset resp.http.xkey;
    unset resp.http.Surrogate-Key;
    unset resp.http.Surrogate-Control;
    unset resp.http.CDN-Cache-Control;
    unset resp.http.Cache-Tag;
    unset resp.http.X-Varnish;
    unset resp.http.Via;
}
