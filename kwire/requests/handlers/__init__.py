"""The handlers of requests: one module per API key, with its name.

Each module has

- `ROUTE`: the API key, its versions and the right that it needs (kwire.requests.route);
- `handle(broker, request, context)`: the response.  It checks no rights, except for Fetch and
  ShareFetch, whose sessions have partitions that a request does not name.

If there is an authorizer, rights are checked by what stands below the line "-- rights":

- `guard(access, request, proceed)`, if the request needs more than one right on one resource
  (kwire.requests.guards.base);
- `refuse(request, error, version, message)`: the response to a request that is refused as a whole,
  if it has no field `error_code`, or more than that to fill in.
"""
