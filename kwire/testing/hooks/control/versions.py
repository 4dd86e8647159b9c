"""Makes a broker look like an older one: limits the API versions that it reports and serves.

The limits are those of a release of Apache Kafka, or given per API, or both.  Features that need a
newer request than the limits allow are not reported, either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import API_NAMES
from kwire.codecs.messages.api_versions import ApiVersion, ApiVersionsResponse
from kwire.requests.routes import ROUTES, UnservedRequest
from kwire.testing.hooks.control.releases import CHANGES
from kwire.testing.hooks.faults.rules import BadRule, api_of

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.context import Context
    from kwire.requests.routes import Binding


NOT_SERVED: Final = -1
"""Stands for the highest version of an API that is not served at all."""

REPORTED_WITH_REFUSAL_SINCE: Final = 3
"""Brokers with this version of ApiVersions report their highest one when they refuse a higher one
(KIP-511)."""

NEEDED_BY_FEATURES: Final = {
    "transaction.version": (ApiKey.PRODUCE, 12),
    "group.version": (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1),
    "share.version": (ApiKey.SHARE_FETCH, 1),
    "streams.version": (ApiKey.STREAMS_GROUP_HEARTBEAT, 0),
    "metadata.version": (ApiKey.DESCRIBE_CLUSTER, 0),
    "eligible.leader.replicas.version": (ApiKey.FETCH, 18),
    "kraft.version": (ApiKey.FETCH, 17),
}
"""The API and version that a client uses because of a feature: a client that sees the feature
without that version fails."""


def read_max_versions(options: Iterable[str]) -> dict[int, int]:
    """The highest versions by API key, of options such as `2.8` (a release) and `Produce=7`.

    An option for an API overrides the release.  Raises BadRule.
    """
    release: dict[int, int] = {}
    limits = {}
    for option in options:
        if option[:1].isdigit():
            if release:
                raise BadRule(f"{option!r}: only one release can be given")
            release = of_release(option)
        else:
            key, version = _of_api(option)
            limits[key] = version
    return {**release, **limits}


def versions_of(release: str) -> dict[int, int]:
    """The highest versions of a release by API key.  Raises KeyError for an unknown release."""
    versions: dict[int, int] = {}
    for changed_in, changes in CHANGES.items():
        for change in changes.split():
            if change.startswith("-"):
                del versions[int(change[1:])]
            else:
                key, _, highest = change.partition(":")
                versions[int(key)] = int(highest)
        if changed_in == release:
            return versions
    raise KeyError(release)


def of_release(release: str) -> dict[int, int]:
    """The highest versions, of the APIs that kwire serves, in a release such as 2.8 or 2.8.1.

    Raises BadRule.
    """
    name = ".".join(release.split(".")[:2])
    if name not in CHANGES:
        raise BadRule(f"release {release!r} is not known: known are {', '.join(CHANGES)}")
    versions = versions_of(name)
    limits = {}
    for route in ROUTES:
        highest = versions.get(route.api_key, NOT_SERVED)
        limits[int(route.api_key)] = highest if highest >= route.min_version else NOT_SERVED
    return limits


def _of_api(option: str) -> tuple[int, int]:
    """Parses `API=VERSION` to the API key and the highest version to serve.  Raises BadRule if the
    broker cannot limit that API, or does not serve that version."""
    name, _, number = option.partition("=")
    key = int(api_of(name))
    served = {int(route.api_key): route for route in ROUTES}
    if key not in served or key == ApiKey.API_VERSIONS:
        raise BadRule(f"the versions of {API_NAMES[key]} cannot be limited")
    low, high = served[key].min_version, served[key].max_version
    if not number.isdigit() or not low <= int(number) <= high:
        raise BadRule(f"{option!r}: {API_NAMES[key]} is served from version {low} to {high}")
    return key, int(number)


class MaxVersions:
    """The version limits of a broker, applied to requests and to ApiVersions responses."""

    def __init__(self, by_key: Mapping[int, int]) -> None:
        self._by_key = by_key

    def __bool__(self) -> bool:
        """Whether there are any limits."""
        return bool(self._by_key)

    def bound(self, binding: Binding) -> Binding:
        """The binding that handles the request: `binding`, or one that limits ApiVersions.

        Raises UnservedRequest, as for an unknown API or version, if the version is too high.
        """
        high = self._by_key.get(binding.api_key)
        is_too_high = high is not None and binding.api_version > high
        if binding.api_key == ApiKey.API_VERSIONS:
            return self._refusing(binding) if is_too_high else self._lowering(binding)
        if is_too_high:
            name = API_NAMES[binding.api_key]
            up_to = "" if high == NOT_SERVED else f": only up to {high}"
            raise UnservedRequest(f"{name} version {binding.api_version} is not served{up_to}")
        return binding

    def _refusing(self, binding: Binding) -> Binding:
        """Answers an ApiVersions of a too high version in version 0 (KIP-511)."""
        high = self._by_key[binding.api_key]
        is_reported = high >= REPORTED_WITH_REFUSAL_SINCE
        keys = [ApiVersion(binding.api_key, 0, high)] if is_reported else []

        def handle(broker: Broker, request: Any, context: Context) -> ApiVersionsResponse:  # noqa: ANN401 - a Handle
            return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys)

        return replace(binding, handle=handle, write=ApiVersionsResponse.WRITERS[0])

    def _lowering(self, binding: Binding) -> Binding:
        """Return the binding of ApiVersions with its responses limited to the versions that are
        served."""
        serve = binding.handle

        def handle(broker: Broker, request: Any, context: Context) -> ApiVersionsResponse:  # noqa: ANN401 - a Handle
            response = serve(broker, request, context)
            assert isinstance(response, ApiVersionsResponse)
            return self._lowered(response)

        return replace(binding, handle=handle)

    def _lowered(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        """A copy of the response with the limits: connections share the original's list."""
        lowered = [
            replace(each, max_version=min(each.max_version, high))
            for each in response.api_keys
            if (high := self._by_key.get(each.api_key, each.max_version)) != NOT_SERVED
        ]
        return replace(
            response,
            api_keys=lowered,
            supported_features=[f for f in response.supported_features if self._has(f.name)],
            finalized_features=[f for f in response.finalized_features if self._has(f.name)],
        )

    def _has(self, feature: str) -> bool:
        key, version = NEEDED_BY_FEATURES[feature]
        return self._by_key.get(key, version) >= version
