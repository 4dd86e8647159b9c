"""An older broker's versions: how high the requests are that clients are told of, API by API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.api_versions import ApiVersionsResponse
from kwire.faults.rules import BadRule, api_name, api_of
from kwire.routes import ROUTES, UnsupportedRequest

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.context import Context
    from kwire.routes import Binding


def read_max_versions(said: Iterable[str]) -> dict[int, int]:
    """API key -> highest version, of `Produce=7`.  Raises BadRule."""
    found = {}
    served = {int(route.api_key): route for route in ROUTES}
    for each in said:
        name, _, number = each.partition("=")
        key = int(api_of(name))
        if key not in served or key == ApiKey.API_VERSIONS:
            raise BadRule(f"{api_name(key)} is served in all its versions or not at all")
        low, high = served[key].min_version, served[key].max_version
        if not number.isdigit() or not low <= int(number) <= high:
            raise BadRule(f"{each!r}: {api_name(key)} is served from version {low} to {high}")
        found[key] = int(number)
    return found


class MaxVersions:
    """What a broker goes by that is to look older than it is."""

    def __init__(self, by_key: Mapping[int, int]) -> None:
        self._by_key = by_key

    def __bool__(self) -> bool:
        """Whether it is."""
        return bool(self._by_key)

    def bound(self, binding: Binding) -> Binding:
        """As `binding`, where that version is served; ApiVersions then tells of these alone.

        Raises UnsupportedRequest, as of an API or a version that there is not.
        """
        high = self._by_key.get(binding.api_key)
        if high is not None and binding.api_version > high:
            name = api_name(binding.api_key)
            raise UnsupportedRequest(
                f"{name} version {binding.api_version} is not served: only up to {high}"
            )
        if binding.api_key != ApiKey.API_VERSIONS:
            return binding
        serve = binding.handle

        def handle(broker: Broker, request: Any, context: Context) -> ApiVersionsResponse:  # noqa: ANN401 - a Handle
            response = serve(broker, request, context)
            assert isinstance(response, ApiVersionsResponse)
            return self._lowered(response)

        return replace(binding, handle=handle)

    def _lowered(self, response: ApiVersionsResponse) -> ApiVersionsResponse:
        """Another response: its list is one that all connections share."""
        lowered = [
            replace(each, max_version=self._by_key.get(each.api_key, each.max_version))
            for each in response.api_keys
        ]
        return replace(response, api_keys=lowered)
