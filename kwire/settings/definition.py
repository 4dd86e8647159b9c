"""Declarations of settings: each setting is a class attribute of a `Settings` class.

    class BrokerConfig(Settings):
        num_partitions = integer(1, MEDIUM, at_least(1))

declares the setting `num.partitions`.  `BrokerConfig.DEFINITIONS` holds its definition, and
`config.num_partitions` of an instance is a plain attribute of the declared type.  A setting acts
unless its declaration or its class has `effect=`.  `doc=` says what it does, for users
(kwire.settings.documentation).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypedDict, Unpack, cast

from kwire.settings.effects import ACTS, Effect
from kwire.settings.validators import Validator
from kwire.settings.values import ConfigType, Value, parse, text_of

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import Endpoint


class Importance(IntEnum):
    """The importance of a setting, as in Kafka's documentation."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


HIGH, MEDIUM, LOW = Importance


class UpdateMode(IntEnum):
    """Whether a broker setting can be changed while the broker runs (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2
    """For one broker, or as a default for all brokers."""


READ_ONLY, PER_BROKER, CLUSTER_WIDE = UpdateMode


class Definition:
    """The declaration of one setting.  `name` is Kafka's; `attribute` has `_` in place of dots."""

    __slots__ = (
        "attribute",
        "default",
        "doc",
        "effect",
        "importance",
        "internal",
        "kind",
        "mode",
        "name",
        "validator",
    )

    def __init__(
        self,
        kind: ConfigType,
        default: Value,
        importance: Importance,
        validator: Validator | None,
        mode: UpdateMode,
        internal: bool,
        effect: Effect,
        doc: str = "",
    ) -> None:
        """Describe a setting; its class sets `name` and `attribute` afterwards."""
        self.name = self.attribute = ""
        self.kind = kind
        self.default = default
        self.importance = importance
        self.validator = validator
        self.mode = mode
        self.internal = internal
        self.effect = effect
        self.doc = doc

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute
        self.name = attribute.replace("_", ".")

    def __repr__(self) -> str:
        return f"<Definition {self.name}>"

    @property
    def is_sensitive(self) -> bool:
        """Whether no response and no log message may show the value."""
        return self.kind is ConfigType.PASSWORD

    @property
    def default_text(self) -> str | None:
        return text_of(self.default, self.kind)

    def parse(self, text: str | None) -> Value:
        """The valid value that `text` stands for.  Raises ConfigError with Kafka's sentence."""
        value = parse(self.name, text, self.kind)
        if self.validator is not None:
            self.validator(self.name, value)
        return value

    def text(self, value: Value) -> str | None:
        return text_of(value, self.kind)


class Settings:
    """The values of a set of settings, which a subclass declares.  Instances are immutable.

    `DEFINITIONS` maps each name to its definition, those of base classes first.
    """

    DEFINITIONS: ClassVar[dict[str, Definition]] = {}
    _DEFAULTS: ClassVar[dict[str, Value]] = {}
    _texts: Mapping[str, str | None]

    def __init_subclass__(cls, effect: Effect = ACTS) -> None:
        """`effect` applies to the settings of this class that declare no effect of their own."""
        definitions = {
            name: definition
            for base in reversed(cls.__mro__)
            for name, definition in base.__dict__.get("DEFINITIONS", {}).items()
        }
        for attribute, definition in list(vars(cls).items()):
            if isinstance(definition, Definition):
                definitions[definition.name] = definition
                if definition.effect is ACTS:
                    definition.effect = effect
                delattr(cls, attribute)  # An instance has the value under this name.
        cls.DEFINITIONS = definitions
        cls._DEFAULTS = {
            definition.attribute: definition.default for definition in definitions.values()
        }

    def __init__(self, given: Mapping[str, str | None]) -> None:
        """The values that `given` has by name, and Kafka's defaults.  Raises ConfigError."""
        values: dict[str, object] = self.__dict__
        values.update(self._DEFAULTS)
        texts: dict[str, str | None] = {}
        for name, text in given.items():
            definition = self.DEFINITIONS[name]
            values[definition.attribute] = value = definition.parse(text)
            texts[name] = definition.text(value)
        values["_texts"] = texts

    def __setattr__(self, attribute: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {attribute}")

    def given(self, name: str) -> str | None:
        """The value that was given for a setting, as Kafka prints it; None if none was given."""
        return self._texts.get(name)

    def text(self, name: str) -> str | None:
        """The value of a setting as Kafka prints it, whatever type its attribute has."""
        texts = self._texts
        return texts[name] if name in texts else self.DEFINITIONS[name].default_text


# -- Declarations.  Their return type is the type of the value, which an instance's attribute holds.


class Options(TypedDict, total=False):
    """What any declaration may add.  By default a setting is read only and public, and acts."""

    mode: UpdateMode
    internal: bool
    effect: Effect
    doc: str


def _declare(
    kind: ConfigType,
    default: Value,
    importance: Importance,
    validator: Validator | None,
    *,
    mode: UpdateMode = UpdateMode.READ_ONLY,
    internal: bool = False,
    effect: Effect = ACTS,
    doc: str = "",
) -> object:
    """Return the definition of a setting; see the functions below for its types.

    The type is `object`, so that each of them can cast it to the type of the value.
    """
    return Definition(kind, default, importance, validator, mode, internal, effect, doc)


def boolean(default: bool, importance: Importance, **options: Unpack[Options]) -> bool:
    return cast(bool, _declare(ConfigType.BOOLEAN, default, importance, None, **options))


def short(
    default: int,
    importance: Importance,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> int:
    """Declare a setting of Kafka's type SHORT."""
    return cast(int, _declare(ConfigType.SHORT, default, importance, validator, **options))


def integer(
    default: int,
    importance: Importance,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> int:
    """Declare a setting of Kafka's type INT."""
    return cast(int, _declare(ConfigType.INT, default, importance, validator, **options))


def optional_integer(importance: Importance, **options: Unpack[Options]) -> int | None:
    return cast("int | None", _declare(ConfigType.INT, None, importance, None, **options))


def long(
    default: int,
    importance: Importance,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> int:
    """Declare a setting of Kafka's type LONG."""
    return cast(int, _declare(ConfigType.LONG, default, importance, validator, **options))


def optional_long(importance: Importance, **options: Unpack[Options]) -> int | None:
    return cast("int | None", _declare(ConfigType.LONG, None, importance, None, **options))


def double(
    default: float,
    importance: Importance,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> float:
    """Declare a setting of Kafka's type DOUBLE."""
    return cast(float, _declare(ConfigType.DOUBLE, default, importance, validator, **options))


def string(
    default: str,
    importance: Importance,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> str:
    """Declare a setting of Kafka's type STRING."""
    return cast(str, _declare(ConfigType.STRING, default, importance, validator, **options))


def optional_string(
    importance: Importance, validator: Validator | None = None, **options: Unpack[Options]
) -> str | None:
    kind = ConfigType.STRING
    return cast("str | None", _declare(kind, None, importance, validator, **options))


def strings(
    default: tuple[str, ...],
    importance: Importance,
    validator: Validator | None = None,
    **options: Unpack[Options],
) -> tuple[str, ...]:
    """Declare a setting of Kafka's type LIST: comma-separated texts."""
    kind = ConfigType.LIST
    return cast("tuple[str, ...]", _declare(kind, default, importance, validator, **options))


def optional_strings(
    importance: Importance, validator: Validator | None = None, **options: Unpack[Options]
) -> tuple[str, ...] | None:
    kind = ConfigType.LIST
    return cast("tuple[str, ...] | None", _declare(kind, None, importance, validator, **options))


def endpoints(
    default: tuple[str, ...] | None,
    importance: Importance,
    validator: Validator,
    **options: Unpack[Options],
) -> tuple[Endpoint, ...]:
    """Return a list of texts.  BrokerConfig puts the parsed endpoints into the attribute."""
    kind = ConfigType.LIST
    return cast("tuple[Endpoint, ...]", _declare(kind, default, importance, validator, **options))


def directories(
    importance: Importance, validator: Validator, **options: Unpack[Options]
) -> tuple[str, ...]:
    """A list of directories.  If it is null, another setting gives the value."""
    kind = ConfigType.LIST
    return cast("tuple[str, ...]", _declare(kind, None, importance, validator, **options))


def java_class(
    importance: Importance, default: str | None = None, **options: Unpack[Options]
) -> str | None:
    """The name of a Java class, which DescribeConfigs returns and nothing loads."""
    return cast("str | None", _declare(ConfigType.CLASS, default, importance, None, **options))


def password(importance: Importance, **options: Unpack[Options]) -> str | None:
    return cast("str | None", _declare(ConfigType.PASSWORD, None, importance, None, **options))
