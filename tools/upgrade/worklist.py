"""The work list: what a release of Apache Kafka has that the one before it had not.

Each item says whether kwire has it already.  What only running brokers show, such as the text of
an error or the order of checks, is not in the jars and not in the list.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.upgrade.facts import BROKER, RECORDS_MAY_CHANGE, Api, Error, FeatureLevel, Setting
from tools.upgrade.item import (
    APIS,
    CLIENT_SETTINGS,
    COMMENTS,
    ERRORS,
    FEATURES,
    SETTINGS,
    Item,
)
from tools.upgrade.release import Release
from tools.upgrade.schema_changes import schema_items
from tools.upgrade.serving import Serving, Status

_BROKERS_RESOURCES = ("broker", "topic", "group", "client-metrics")


def work_list(before: Release, after: Release, serving: Serving) -> list[Item]:
    """All items between two releases, in the order of the list."""
    return [
        *_api_items(before.facts.apis, after.facts.apis, serving),
        *schema_items(before, after, serving),
        *_error_items(before.facts.errors, after.facts.errors, serving),
        *_setting_items(before.facts.settings, after.facts.settings, serving),
        *_feature_items(before.facts.features, after.facts.features, serving),
    ]


# -- API keys


def _api_items(old: list[Api], new: list[Api], serving: Serving) -> Iterator[Item]:
    """The items about API keys and their versions."""
    before = {api.key: api for api in old}
    after = {api.key: api for api in new}
    for key in sorted(before.keys() - after.keys()):
        gone = Status.TO_DO if key in serving.versions else Status.SERVED
        yield Item(APIS, f"{key} {before[key].name} is gone", gone)
    for key, api in sorted(after.items()):
        yield from _api_changes(before.get(key), api, serving)


def _api_changes(old: Api | None, new: Api, serving: Serving) -> Iterator[Item]:
    """The items about one API key that a release has."""
    name = f"{new.key} {new.name}"
    where = ", ".join(new.listeners)
    if old is None:
        yield Item(
            APIS, f"new: {name}, versions {_stable(new)}, {where}", *_api_status(new, serving)
        )
    else:
        if (old.min, old.stable) != (new.min, new.stable):
            text = f"{name}: versions {_stable(old)} → {_stable(new)}"
            yield Item(APIS, text, *_api_status(new, serving))
        if old.listeners != new.listeners:
            text = f"{name}: {', '.join(old.listeners)} → {where}"
            yield Item(APIS, text, *_api_status(new, serving))
    if new.max > new.stable and (old is None or new.max > old.max):
        yield Item(APIS, f"{name}: version {new.max}", Status.GATED, "unstable version")


def _stable(api: Api) -> str:
    return f"{api.min}-{api.stable}" if api.stable >= api.min else "none"


def _api_status(api: Api, serving: Serving) -> tuple[Status, str]:
    """Whether kwire serves all stable versions of an API key."""
    if BROKER not in api.listeners:
        return Status.GATED, "for controllers"
    if api.stable < api.min:
        return Status.GATED, "unstable version"
    low, high = serving.versions.get(api.key, (0, -1))
    if (low, high) == (api.min, api.stable):
        return Status.SERVED, ""
    return Status.TO_DO, "no route" if high < low else f"the route has {low}-{high}"


# -- error codes


def _error_items(old: list[Error], new: list[Error], serving: Serving) -> Iterator[Item]:
    """The items about error codes."""
    before = {error.code: error for error in old}
    after = {error.code: error for error in new}
    for code in sorted(before.keys() - after.keys()):
        yield Item(ERRORS, f"{code} {before[code].name} is gone", Status.TO_DO)
    for code, error in sorted(after.items()):
        if before.get(code) == error:
            continue
        kind = "retriable" if error.retriable else "not retriable"
        text = f"{code} {error.name}, {kind}"
        if code in before:
            text = f"{code} {before[code].name} → {error.name}, {kind}"
        used = error.name in serving.identifiers
        note = "" if used else "no code names it"
        yield Item(ERRORS, text, Status.SERVED if used else Status.TO_DO, note)


# -- settings


def _setting_items(old: list[Setting], new: list[Setting], serving: Serving) -> Iterator[Item]:
    """The items about settings, and about sentences of Kafka's documentation that changed.

    What is the same for several resources, as for most clients, is one item.
    """
    before = {each[:2]: each for each in old}
    after = {each[:2]: each for each in new}
    resources: dict[tuple[str, str], list[str]] = {}
    items: dict[tuple[str, str], Item] = {}
    for key in sorted({*before, *after}):
        for item in _changes_of_setting(before.get(key), after.get(key), serving):
            same = (item.section, item.text)
            items.setdefault(same, item)
            resources.setdefault(same, []).append(key[0])
    for same, item in items.items():
        yield item._replace(text=f"{', '.join(resources[same])}: {item.text}")


def _changes_of_setting(
    old: Setting | None, new: Setting | None, serving: Serving
) -> Iterator[Item]:
    """The items about one setting; their texts lack its resource."""
    if new is None:
        assert old is not None
        gone = Status.TO_DO if old[:2] in serving.settings else Status.SERVED
        yield Item(_section(old.resource), f"{old.name} is gone", gone)
    elif old is None:
        yield _new_setting(new, serving)
    else:
        changes = _changes(old, new)
        if changes:
            text = f"{new.name}: {'; '.join(changes)}"
            yield Item(_section(new.resource), text, *_changed_status(new, serving))
        if _sentence(old) != _sentence(new):
            status = _setting_status(new, serving)
            text = f"documentation of {new.name}"
            yield Item(COMMENTS, text, *status, [_sentence(new)])


def _section(resource: str) -> str:
    return SETTINGS if resource in _BROKERS_RESOURCES else CLIENT_SETTINGS


def _sentence(setting: Setting) -> str:
    """Kafka's documentation of a setting on one line."""
    return " ".join(setting.documentation.split())


def _new_setting(setting: Setting, serving: Serving) -> Item:
    parts = [f"{setting.name}: {setting.type} = {setting.default or 'empty'}"]
    parts += [setting.valid, setting.update]
    if setting.synonyms:
        parts.append(f"default of {setting.synonyms}")
    text = ", ".join(part for part in parts if part)
    return Item(
        _section(setting.resource),
        f"new: {text}",
        *_setting_status(setting, serving),
        [_sentence(setting)] if setting.documentation else [],
    )


def _setting_status(setting: Setting, serving: Serving) -> tuple[Status, str]:
    status, note = serving.setting(setting.resource, setting.name)
    if setting.internal:
        return Status.GATED, "internal"
    return status, note


def _changes(old: Setting, new: Setting) -> list[str]:
    """What has changed of a setting except its documentation."""
    names = ("type", "default", "valid", "importance", "update", "internal", "synonyms")
    pairs = [(name, getattr(old, name), getattr(new, name)) for name in names]
    return [f"{name} {was!s} → {now!s}" for name, was, now in pairs if was != now]


def _changed_status(setting: Setting, serving: Serving) -> tuple[Status, str]:
    """Whether kwire declares a setting as it is now; its validator is not compared."""
    definition = serving.settings.get((setting.resource, setting.name))
    if definition is not None and not setting.internal:
        default = "null" if definition.default is None else definition.default_text
        declared = (definition.kind.name, default, definition.importance.name)
        if declared != (setting.type, setting.default, setting.importance):
            return Status.TO_DO, f"declared with {' '.join(map(str, declared))}"
    return _setting_status(setting, serving)


# -- features


def _feature_items(
    old: list[FeatureLevel], new: list[FeatureLevel], serving: Serving
) -> Iterator[Item]:
    """The items about features."""
    before = {each[:2]: each for each in old}
    after = {each[:2]: each for each in new}
    for feature, number in sorted(before.keys() - after.keys()):
        low, high = serving.features.get(feature, (0, -1))
        gone = Status.TO_DO if low <= number <= high else Status.SERVED
        yield Item(FEATURES, f"{feature} {number} is gone", gone)
    previous: FeatureLevel | None = None
    for key, level in after.items():
        if key not in before:
            lower = previous if previous is not None and previous.feature == key[0] else None
            yield _new_level(level, lower, serving)
        elif before[key] != level:
            text = f"{level.feature} {level.level} {level.name}"
            details = list(_level_changes(before[key], level))
            if details:
                yield Item(FEATURES, text, *_level_status(level, serving), details)
        previous = level


def _new_level(level: FeatureLevel, lower: FeatureLevel | None, serving: Serving) -> Item:
    known = lower.abilities if lower is not None else {}
    details = [
        f"{name}={value}"
        for name, value in level.abilities.items()
        if known.get(name) != value or (name == RECORDS_MAY_CHANGE and value == "true")
    ]
    if level.needs != "{}":
        details.append(f"needs {level.needs.strip('{}')}")
    if level.since:
        details.append(f"new clusters have it from metadata.version {level.since}")
    text = f"new: {level.feature} {level.level} {level.name}"
    return Item(FEATURES, text, *_level_status(level, serving), details)


def _level_changes(old: FeatureLevel, new: FeatureLevel) -> Iterator[str]:
    """What has changed of a level that both releases have."""
    if old.production != new.production:
        yield "now for production" if new.production else "no longer for production"
    for name in ("name", "needs", "since"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            yield f"{name} {was} → {now}"
    for ability, value in new.abilities.items():
        known = old.abilities.get(ability, "not there")
        is_new = known == "not there" and value in ("false", "none")
        if known != value and not is_new:
            yield f"{ability} {known} → {value}"


def _level_status(level: FeatureLevel, serving: Serving) -> tuple[Status, str]:
    """Whether kwire supports a level of a feature."""
    if not level.production:
        return Status.GATED, "not for production"
    low, high = serving.features.get(level.feature, (0, -1))
    if low <= level.level <= high:
        return Status.SERVED, ""
    return Status.TO_DO, f"kwire supports {low} to {high}" if high >= low else "kwire lacks it"
