"""The ``ds4`` settings section: names, types, defaults and their one-line help.

The one source of the defaults: the README's table, ``docs/protocol.schema.json`` and the editors' settings are
generated from these models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from ds4_lsp.protocol.text import refuse_lone_surrogates

Permission = Literal["ask", "allow", "deny"]
ToolSyntax = Literal["auto", "template", "dsml", "hermes", "xml"]
"""``template``, and the names of :mod:`ds4_lsp.syntax.registry`."""
Thinking = Literal["off", "on", "low", "medium", "high", "max"]

RENAMED = {"dsml.grammar": "tools.grammar"}
"""Settings of former versions, and what they are called now."""


class Section(BaseModel):
    """Base of all sections: camelCase on the wire, unknown keys refused, immutable."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True)

    @field_validator("*")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        return refuse_lone_surrogates(value)


class ModelSettings(Section):
    path: str | None = Field(None, description="GGUF file to load. DS4_MODEL and --model override it.")
    context_size: int = Field(
        32768, ge=512, le=2**31 - 1, description="Context, in tokens. At most the model's trained length."
    )
    gpu_layers: int = Field(-1, ge=-1, le=100_000, description="Layers on the GPU; -1 means all, 0 none.")
    # The most that ggml takes is 512 (``GGML_MAX_N_THREADS``).
    threads: int | None = Field(None, ge=1, le=512, description="CPU threads; null means the physical cores.")
    batch_size: int = Field(512, ge=1, le=8192, description="Tokens evaluated per batch; a cancel waits for one batch.")
    flash_attention: Literal["auto", "on", "off"] = Field("auto", description="auto: on with a GPU, off on CPU.")
    kv_cache_type: Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"] = Field(
        "f16", description="Type of the KV cache. A quantised one needs flash attention."
    )
    split_mode: Literal["none", "layer", "row"] | None = Field(
        None, description="How a model is split over several GPUs; null leaves it to llama.cpp."
    )
    rpc_servers: list[str] = Field(
        default_factory=list, description="HOST:PORT of llama.cpp RPC servers that share the model."
    )
    preload: bool = Field(True, description="Load the model at start rather than at the first prompt.")


class SamplingSettings(Section):
    """``null``: see :mod:`ds4_lsp.protocol.recommended`."""

    temperature: float | None = Field(
        None, ge=0, le=5, description="0 is greedy. null, here and below: as the model's makers recommend."
    )
    top_p: float | None = Field(None, gt=0, le=1, description="Nucleus sampling; 1 is off.")
    min_p: float | None = Field(
        None, ge=0, le=1, description="Least probability relative to the likeliest token; 0 is off."
    )
    top_k: int | None = Field(
        None, ge=0, le=2**31 - 1, description="How many of the likeliest tokens are drawn from; 0 is all."
    )
    repeat_penalty: float | None = Field(
        None, ge=1, le=3, description="Makes a reply's last 64 tokens less likely, outside of calls; 1 is off."
    )
    seed: int | None = Field(None, ge=0, lt=2**32 - 1, description="null draws a new seed each time.")
    max_tokens: int | None = Field(None, ge=1, description="Most tokens generated in one turn; null means 50000.")

    @property
    def most_tokens(self) -> int:
        """``max_tokens``, found."""
        return 50000 if self.max_tokens is None else self.max_tokens


class CompactionSettings(Section):
    auto: bool = Field(True, description="Compact by itself when the context fills.")
    soft_percent: int = Field(85, ge=10, le=99, description="Part of the context at which compaction starts.")
    min_free_tokens: int = Field(8192, ge=0, description="Compact when fewer tokens stay free (at most context/4).")
    tail_percent: int = Field(10, ge=1, le=50, description="Part of the context kept token for token.")
    tail_max_tokens: int = Field(50000, ge=1, description="Upper limit of the kept tail, in tokens.")
    summary_max_tokens: int = Field(4096, ge=64, description="Upper limit of the summary, in tokens.")
    prompts_max_tokens: int | None = Field(
        None, ge=64, description="Your prompts kept word for word, in tokens; null means an eighth of the context."
    )


class EditSettings(Section):
    guard: Literal["rebase", "strict"] = Field("rebase", description="What happens to an edit of changed text.")
    confirm: Literal["never", "always"] = Field("never", description="Ask for a preview before an edit applies.")
    save: bool = Field(True, description="Save a file after an edit, so that commands see it.")


class PermissionSettings(Section):
    bash: Permission = Field("ask", description="May the agent run commands?")
    write: Permission = Field("allow", description="May the agent change files in the workspace?")
    outside_workspace: Permission = Field("deny", description="May the agent touch files outside the workspace?")
    bash_allow: list[str] = Field(
        default_factory=list, description="Command patterns that need no question, for example `git status`."
    )


class SessionSettings(Section):
    directory: str | None = Field(
        None, description="Where sessions are kept, absolute or from ~; null means the user's state directory."
    )
    snapshots: bool = Field(True, description="Keep KV snapshots on disk, so that a restart needs no prefill.")

    @field_validator("directory")
    @classmethod
    def _does_not_depend_on_where_the_server_runs(cls, directory: str | None) -> str | None:
        if directory is None:
            return None
        if "\0" in directory:
            raise ValueError("a path cannot hold a NUL character")
        try:
            found = Path(directory).expanduser()
        except RuntimeError:
            raise ValueError("it begins in a home folder that is not known") from None
        if not found.is_absolute():
            raise ValueError("must be an absolute path, or begin with ~")
        return directory

    @property
    def base(self) -> Path | None:
        """``directory`` with its home folder found."""
        return None if self.directory is None else Path(self.directory).expanduser()


class ToolSettings(Section):
    syntax: ToolSyntax = Field(
        "auto",
        description="How tool calls are written. auto: what serves the model best; template: its own way; "
        "dsml: as DeepSeek V4; hermes: JSON in <tool_call>, as Qwen3; xml: as Qwen3-Coder.",
    )
    grammar: bool = Field(True, description="Constrain tool calls by a grammar made from the tools' schemas.")


class Settings(Section):
    model: ModelSettings = ModelSettings()
    sampling: SamplingSettings = SamplingSettings()
    thinking: Thinking = Field(
        "on",
        description="Let models that can think do so, and how much where the model knows levels; on: its own level.",
    )
    system_prompt: str = Field("", description="Appended to the built-in system prompt, as plain text.")
    compaction: CompactionSettings = CompactionSettings()
    edits: EditSettings = EditSettings()
    permissions: PermissionSettings = PermissionSettings()
    sessions: SessionSettings = SessionSettings()
    tools: ToolSettings = ToolSettings()

    @property
    def thinks(self) -> bool:
        """Whether the model may think at all."""
        return self.thinking != "off"
