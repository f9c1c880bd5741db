"""The engine process and its client. Knows tokens, nothing of sessions.

The door is ``ds4_lsp.engine.client.EngineClient``. It starts ``python -m ds4_lsp.engine``, one process per loaded
model, and talks to it over a socket pair. Only that process imports llama.cpp, and nothing is imported here, since
the process must settle its file descriptors before any other code runs.

A frame is a little-endian header length and payload length (4 bytes each), a JSON object and an array of int32
tokens. Every request carries an ``id``; everything said about it carries it too.

==========  =========================================  ==================================================
request     fields (payload)                           replies
==========  =========================================  ==================================================
load        settings, contextIsDefault, swaFull        planned, progress*, result {info, notes}
sync        base, keep (tokens from ``keep`` on)       progress*, result {synced}
generate    base, keep, request (likewise)             progress*, tokens*, result {generated, synced}
save        path                                       released, result {}
restore     path (all tokens)                          result {restored}
kv          –                                          result {} (all tokens)
tokenize    segments: [[text, special]]                result {} (tokens)
cancel      –  (``id`` is that of what is cancelled)   –
ping        –                                          result {}
==========  =========================================  ==================================================

``planned {plan}``: what is about to be loaded, and the memory that it needs. ``progress {done, total, kv}``,
``tokens {text, kv}`` (payload: ids), ``error {code, message, data}`` in place of ``result``. ``base`` and ``kv`` are
[length, CRC-32] of the tokens in the KV (progress: the length alone): the client mirrors them, and both sides refuse to
go on from a mirror that does not match.

The first five may say ``cancelled``: that they were before they were sent.

``tokenize``, ``cancel`` and ``ping`` are served while another request runs; the others one after the other.
``released`` says that the engine is free again though a save is still being written.
"""
