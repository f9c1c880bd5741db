"""From what a client sends to :class:`Settings`: invalid keys degrade loudly, their siblings stay valid. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from ds4_lsp.protocol.settings import RENAMED, Section, Settings

SECTION = "ds4"

S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class Problem:
    """A setting that could not be used. ``key`` is dotted, without the section's name."""

    key: str
    value: Any
    used: Any
    """What is in force instead; None where the value has no effect."""
    reason: str
    unknown: bool = False
    """There is no such key."""
    ignored: bool = False
    """What is in force without this value stays so."""
    renamed: str | None = None
    """What the setting is called now. The value has its effect."""

    def __str__(self) -> str:
        value = _show(self.value)
        if self.renamed:
            return (
                f"ds4-lsp: the setting {SECTION}.{self.key} is called {SECTION}.{self.renamed} now: please rename it."
            )
        if self.unknown:
            return f"ds4-lsp: the setting {SECTION}.{self.key} = {value} is not known and has no effect."
        if self.ignored:
            return f"ds4-lsp: the setting {SECTION}.{self.key} = {value} is {self.reason} and has no effect."
        return (
            f"ds4-lsp: the setting {SECTION}.{self.key} = {value} is not valid ({self.reason}); "
            f"the default {_show(self.used)} is used."
        )


def parse(raw: Mapping[str, Any]) -> tuple[Settings, list[Problem]]:
    """Settings from a section's content.

    A valid value that differs from the default counts as given: it is in the ``model_fields_set`` of its section.
    One that equals the default does not, because some editors send every default.
    """
    problems: list[Problem] = []
    return _parse(Settings, _rename(raw, problems), "", problems), problems


def _rename(raw: Mapping[str, Any], problems: list[Problem]) -> Mapping[str, Any]:
    """``raw`` with the names of today. A new name that has another value than its default wins over the old one."""
    for old, new in RENAMED.items():
        old_section, _, old_key = old.rpartition(".")
        section, _, key = new.rpartition(".")
        given = raw.get(old_section)
        if not isinstance(given, Mapping) or old_key not in given:
            continue
        value = given[old_key]
        problems.append(Problem(old, value, value, "renamed", renamed=new))
        rest = {name: other for name, other in given.items() if name != old_key}
        today = raw.get(section)
        today = dict(today) if isinstance(today, Mapping) else {}
        default = Settings().model_dump(by_alias=True)[section][key]
        if today.get(key, default) == default:
            today[key] = value
        raw = {name: other for name, other in raw.items() if name != old_section} | {section: today}
        raw |= {old_section: rest} if rest else {}
    return raw


def explicit(settings: Settings) -> frozenset[str]:
    """Dotted wire names of the settings that were given, for example ``model.contextSize``."""
    return frozenset(_explicit(settings, ""))


def _explicit(section: Section, prefix: str) -> list[str]:
    names: list[str] = []
    for name in section.model_fields_set:
        key = prefix + (type(section).model_fields[name].alias or name)
        value = getattr(section, name)
        names += _explicit(value, key + ".") if isinstance(value, Section) else [key]
    return names


def _parse(model: type[S], raw: Mapping[str, Any], prefix: str, problems: list[Problem]) -> S:
    fields = {info.alias or name: info for name, info in model.model_fields.items()}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        info = fields.get(key)
        if info is None:
            problems.append(Problem(prefix + key, value, None, "unknown", unknown=True))
            continue
        default = info.get_default(call_default_factory=True)
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            if isinstance(value, Mapping):
                values[key] = _parse(info.annotation, value, f"{prefix}{key}.", problems)
            elif value is not None:
                problems.append(Problem(prefix + key, value, default.model_dump(by_alias=True), "not an object"))
            continue
        try:
            model.model_validate({key: value})
        except ValidationError as error:
            problems.append(Problem(prefix + key, value, default, _reason(error)))
            continue
        if value != default:
            values[key] = value
    return model.model_validate(values)


def _reason(error: ValidationError) -> str:
    return "; ".join(dict.fromkeys(detail["msg"][:1].lower() + detail["msg"][1:] for detail in error.errors()))


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + "…"


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``base``, section by section. A section that is null gives nothing, so it takes nothing away."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if not isinstance(below, Mapping):
            merged[key] = value
        elif value is not None:
            merged[key] = merge(below, value) if isinstance(value, Mapping) else value
    return merged


def null_sections(raw: Mapping[str, Any]) -> list[Problem]:
    """What has to be said of the sections that are null: it may be meant to be an empty one, or a slip."""
    fields = Settings.model_fields.items()
    names = [info.alias or name for name, info in fields if isinstance(info.default, Section)]
    return [Problem(name, None, None, "not an object", ignored=True) for name in names if raw.get(name, raw) is None]


def section_of(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section's content, also from options that wrap it in its name."""
    inner = options.get(SECTION)
    return inner if len(options) == 1 and isinstance(inner, Mapping) else options


@dataclass
class Sources:
    """Where settings come from, the later over the earlier: ``initializationOptions``, the client's configuration,
    and a model path from the environment or the command line."""

    options: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    model_path: str | None = None
    _told: set[str] = field(default_factory=set)

    @property
    def names_context_size(self) -> bool:
        """Whether ``initializationOptions`` give a context size, be it the default's. A client's configuration may list
        every default, so there only another value says that somebody chose it."""
        model = section_of(self.options).get("model")
        return isinstance(model, Mapping) and "contextSize" in model

    def settings(self) -> tuple[Settings, list[Problem]]:
        """The settings in force, and the problems not told before."""
        options = section_of(self.options)
        settings, problems = parse(merge(options, self.configuration))
        problems += {
            problem.key: problem for given in (options, self.configuration) for problem in null_sections(given)
        }.values()
        if self.model_path:
            model = settings.model.model_copy(update={"path": self.model_path})
            settings = settings.model_copy(update={"model": model})
        new = [problem for problem in problems if str(problem) not in self._told]
        self._told = {str(problem) for problem in problems}
        return settings, new
