-- What was said before, as `ds4.showHistory` gives it, in the form of the events that told it.

local M = {}

---@param entry table
---@param session? string
---@return ds4.Event[]
local function events_of(entry, session)
  local events = {}
  local function add(kind, fields)
    events[#events + 1] = vim.tbl_extend('force', { kind = kind, sessionId = session, turn = entry.turn or 0 }, fields)
  end
  if entry.role == 'user' then
    add('turn.start', { text = entry.text })
  elseif entry.role == 'assistant' then
    if entry.thinking then
      add('thinking', { delta = entry.thinking })
    end
    if vim.trim(entry.text) ~= '' then
      add('text', { delta = vim.trim(entry.text) })
    end
    for _, call in ipairs(entry.calls or {}) do
      add('tool.call', { callId = call.callId, name = call.name, arguments = call.arguments })
    end
  elseif entry.role == 'tool' then
    add('tool.result', { callId = entry.callId, name = entry.name, ok = entry.ok, text = entry.text })
  elseif entry.role == 'compaction' then
    add('compaction.start', {})
    add('compaction.delta', { delta = entry.text })
    add('compaction.end', { seq = entry.seq, compacted = true })
  else
    add('notice', { text = entry.text })
  end
  return events
end

---@param transcript ds4.Transcript
---@param entries table[]
function M.show(transcript, entries)
  for _, entry in ipairs(entries) do
    for _, event in ipairs(events_of(entry, transcript.session)) do
      transcript:event(event)
    end
  end
  transcript:pause()
end

return M
