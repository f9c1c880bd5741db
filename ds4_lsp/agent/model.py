"""Which model is loaded, and the loading of one: in the background, once, cancellable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ds4_lsp.chat.derive import derive
from ds4_lsp.chat.frames import Frames
from ds4_lsp.ports import Cancel, Engine, Listener, ModelInfo
from ds4_lsp.protocol.errors import Cancelled, Ds4Error, NoModel
from ds4_lsp.protocol.recommended import chosen
from ds4_lsp.protocol.settings import ModelSettings, Settings

log = logging.getLogger(__name__)

NO_MODEL = (
    "No model is set. Put the path of a GGUF file into the setting ds4.model.path or the environment variable "
    "DS4_MODEL, or fetch a small one with `ds4-lsp model fetch qwen2.5-coder-1.5b`."
)


@dataclass
class ModelHost:
    """Loads the configured model into the engine when it is needed. Owned by the worker."""

    engine: Engine
    listener: Listener
    settings: Callable[[], ModelSettings]
    context_is_default: Callable[[], bool]
    on_state: Callable[[], None]
    frames: Frames | None = None
    error: str | None = None
    loading: Cancel | None = None
    override: str | None = None
    """A path given by ``ds4.loadModel``; it wins over the setting until the server ends."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _loaded_as: object = None
    _told_of: object = None

    @property
    def path(self) -> str | None:
        return self.override or self.settings().path

    @property
    def info(self) -> ModelInfo | None:
        return self.engine.info

    def describe(self, settings: Settings) -> dict[str, Any] | None:
        """The loaded model in ``ds4.status``, and how it is sampled under these settings."""
        info = self.engine.info
        if info is None:
            return None
        thinks = settings.thinks and self.frames is not None and self.frames.thinks
        sampling = chosen(settings.sampling, info.recommended, thinking=thinks)
        return {
            "name": info.name,
            "path": info.path,
            "architecture": info.architecture,
            "size": info.size,
            "contextSize": info.context_size,
            "trainedContext": info.trained_context,
            "gpu": info.gpu,
            "devices": list(info.devices),
            "frames": self.frames.source if self.frames else None,
            "sampling": {name: asdict(one) for name, one in sampling.items()},
        }

    async def ensure(self, cancel: Cancel) -> ModelInfo:
        """The loaded model; loads it first where that is needed. Waits for a load that is under way."""
        if self.engine.info is not None and self.frames is not None:
            return self.engine.info
        async with self._lock:
            if self.engine.info is not None and self.frames is not None:
                return self.engine.info
            return await self._load(cancel, by_itself=True)

    def tell_of_changes(self) -> None:
        """Say, once, that what the settings ask for by now is not what is loaded."""
        if self.engine.info is None or self._wanted() in (self._loaded_as, self._told_of):
            return
        self._told_of = self._wanted()
        self.listener.message(
            "info", "DS4: the changed ds4.model settings take effect at the next load. Load the model to use them now."
        )

    def _wanted(self) -> object:
        """All that a load depends on."""
        settings = self.settings().model_copy(update={"path": self.path, "preload": True})
        return settings, self.context_is_default()

    async def reload(self, path: str | None, cancel: Cancel) -> ModelInfo:
        """Load ``path`` (or the configured model again) in place of what is loaded."""
        async with self._lock:
            before, self.override = self.override, path
            await self._unload()
            try:
                return await self._load(cancel)
            except BaseException:
                # A slip of the pen must not stick: the next prompt loads what was chosen before.
                self.override = before
                raise

    async def unload(self) -> None:
        async with self._lock:
            await self._unload()

    async def _unload(self) -> None:
        self.frames = None
        await self.engine.unload()
        self.on_state()

    async def _load(self, cancel: Cancel, *, by_itself: bool = False) -> ModelInfo:
        path = self.path
        if path is None:
            raise NoModel(NO_MODEL)
        settings = self.settings().model_copy(update={"path": path})
        wanted = self._wanted()
        self.loading, self.error = Cancel(), None
        forget = cancel.on_set(self.loading.set)
        self.on_state()
        name = path.rsplit("/", 1)[-1]
        try:
            info = await self.engine.load(
                settings,
                context_is_default=self.context_is_default(),
                on_progress=lambda done, total: self.listener.progress(
                    "load", "Loading model", done=done, total=total, message=name
                ),
                cancel=self.loading,
                by_itself=by_itself,
            )
            self.frames = await asyncio.to_thread(derive, info)
            self._loaded_as = wanted
        except (Cancelled, asyncio.CancelledError):
            self.error = "Loading the model was cancelled."
            raise
        except Ds4Error as error:
            self.error = error.message
            raise
        except Exception as error:
            self.error = f"Loading the model failed: {type(error).__name__}: {error}"
            raise
        finally:
            self.loading = None
            forget()
            self.listener.progress_end("load", self.error or "loaded")
            self.on_state()
        for note in (*self.engine.notes, self.frames.warning):
            if note:
                self.listener.message("warning", f"DS4: {note}")
        log.info("model %s: frames from %s", info.name, self.frames.source)
        return info
