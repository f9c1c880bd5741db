-- A session as text: what its events and its history look like in the buffer.

local Writer = require('ds4.writer')
local words = require('ds4.words')

---@class ds4.Target where a line leads
---@field uri string
---@field line integer 1-based

---@class ds4.Call
---@field line integer of its heading
---@field name string
---@field summary string

---@class ds4.Queued
---@field seq? integer
---@field text string
---@field held? boolean it waits until the user sends it
---@field sessionId? string

---@class ds4.Transcript
---@field writer ds4.Writer
---@field session? string
---@field targets table<integer, ds4.Target>
---@field private calls table<string, ds4.Call>
---@field private section? string
---@field private compaction? { line: integer, about: string }
---@field private usage? table
---@field private queued ds4.Queued[] prompts whose turn has not begun
local Transcript = {}
Transcript.__index = Transcript

local FOLD, IN_FOLD = '>1', '1'
local MARKS = { running = '…', ok = '✓', failed = '✗' }

---@param buf integer
---@return ds4.Transcript
function Transcript.new(buf)
  return setmetatable({ writer = Writer.new(buf), targets = {}, calls = {}, queued = {} }, Transcript)
end

---Empties the buffer, for another session or for what was said before.
---@param session? string
function Transcript:open(session)
  if self.session and self.session ~= session then
    self:wait({})
  end
  self.writer:clear()
  self.session, self.targets, self.calls = session, {}, {}
  self.section, self.compaction, self.usage = nil, nil, nil
  self.writer:line(session and '# DS4 session ' .. session:sub(1, 8) or '# DS4')
  self.writer:paragraph()
end

---Begins a part; returns whether it is another one than before.
---@private
---@param name string
---@return boolean
function Transcript:enter(name)
  if self.section == name then
    return false
  end
  self.section = name
  self.writer:paragraph()
  return true
end

---@private
---@param call ds4.Call
---@param mark string
function Transcript:head(call, mark)
  self.writer:rewrite(call.line, ('**%s**%s %s'):format(call.name, call.summary, mark))
end

---@private
---@param id string
---@param name string
---@return ds4.Call
function Transcript:call(id, name)
  if not self.calls[id] then
    self:enter('call:' .. id)
    local line = self.writer:line(('**%s** %s'):format(name, MARKS.running))
    self.calls[id] = { line = line, name = name, summary = '' }
    self.writer:write('\n')
  end
  return self.calls[id]
end

---A folded block: a title, and text indented so that Markdown leaves it alone.
---@private
---@param title string
---@param text string
function Transcript:folded(title, text)
  local lines = vim.split((text:gsub('\n$', '')), '\n', { plain = true })
  self.writer:line('    ' .. title, FOLD)
  for _, line in ipairs(lines) do
    self.writer:write('\n    ' .. line, IN_FOLD)
  end
  self.writer:write('\n')
  self.section = nil
end

---Shows the prompts that wait, below everything.
---@param queued ds4.Queued[]
function Transcript:wait(queued)
  self.queued = queued
  local lines = vim.tbl_map(function(prompt)
    return (prompt.held and '> held: ' or '> queued: ') .. words.one_line(prompt.text)
  end, queued)
  self.writer:below(#lines > 0 and vim.list_extend({ '' }, lines) or {})
end

---A prompt waits no longer.
---@private
---@param text string
function Transcript:begun(text)
  local left = vim.list_slice(self.queued)
  for index, prompt in ipairs(left) do
    if prompt.text == text and not prompt.held then
      table.remove(left, index)
      break
    end
  end
  self:wait(left)
end

---@private
---@param prompt string
function Transcript:prompt(prompt)
  self:enter('you')
  self.writer:line('## You')
  self.writer:write('\n\n' .. prompt .. '\n\n## DS4\n\n')
  self.section = 'turn'
end

---@private
---@param note string
function Transcript:note(note)
  self:enter('note')
  self.writer:line('> ' .. note:gsub('\n', '\n> '))
  self.section = nil
end

---@private
---@param event ds4.Event
function Transcript:turn_end(event)
  if event.error then
    self:note('**Error:** ' .. event.error)
  end
  self:enter('end')
  self.writer:line('*' .. words.ending(event.stopReason, self.usage) .. '*')
  self:pause()
  self.usage = nil
end

---@private
---@param event ds4.Event
function Transcript:compaction_end(event)
  local begun = self.compaction
  if not begun then
    return
  end
  local outcome = event.compacted and 'COMPACTED' or 'NOT COMPACTED'
  local reason = event.reason and event.reason ~= '' and ': ' .. event.reason or ''
  self.writer:rewrite(begun.line, ('**%s**%s%s'):format(outcome, begun.about, reason))
  local session = event.sessionId or self.session
  if event.compacted and event.seq and session then
    self.targets[begun.line] = { uri = ('ds4:/session/%s/checkpoint/%d'):format(session, event.seq), line = 1 }
  end
  self.writer:paragraph()
  self.section, self.compaction = nil, nil
end

local handlers = {} ---@type table<string, fun(self: ds4.Transcript, event: ds4.Event)>

handlers['turn.start'] = function(self, event)
  self:begun(event.text)
  self:prompt(event.text)
end
handlers['queued'] = function(self, event)
  self:wait(vim.list_extend(vim.list_slice(self.queued), { { seq = event.seq, text = event.text } }))
end
handlers['queue'] = function(self, event)
  self:wait(event.items)
end
handlers['text'] = function(self, event)
  self:enter('text')
  self.writer:write(event.delta)
end
handlers['thinking'] = function(self, event)
  if self:enter('thinking') then
    self.writer:line('*thinking*\n', FOLD)
    self.writer:level(IN_FOLD)
  end
  self.writer:write(event.delta, IN_FOLD)
end
handlers['tool.start'] = function(self, event)
  self:call(event.callId, event.name)
end
handlers['tool.delta'] = function(self, event)
  self:call(event.callId, event.name)
  local section = 'call:' .. event.callId .. ':' .. event.parameter
  if self.section ~= section then
    local first = self.section == 'call:' .. event.callId
    self.section = section
    self.writer:line(('    %s: '):format(event.parameter), first and FOLD or IN_FOLD)
  end
  self.writer:write((event.delta:gsub('\n', '\n    ')), IN_FOLD)
end
handlers['tool.call'] = function(self, event)
  local call = self:call(event.callId, event.name)
  call.summary = words.about(event.arguments or {})
  self:head(call, MARKS.running)
  self.section = nil
  if not self.writer:at_line_start() then
    self.writer:write('\n')
  end
end
handlers['tool.result'] = function(self, event)
  local call = self:call(event.callId, event.name)
  self:head(call, event.ok and MARKS.ok or MARKS.failed)
  local count = select(2, event.text:gsub('\n', '\n')) + 1
  self:folded(('↳ %s, %s: %d lines'):format(event.name, event.ok and 'ok' or 'failed', count), event.text)
end
handlers['edit'] = function(self, event)
  self.section = nil
  if not self.writer:at_line_start() then
    self.writer:write('\n')
  end
  local name = vim.fn.fnamemodify(vim.uri_to_fname(event.uri), ':~:.')
  local line = self.writer:line(('✎ %s:%d-%d'):format(name, event.startLine, event.endLine))
  self.targets[line] = { uri = event.uri, line = math.max(1, event.startLine) }
  self.writer:write('\n')
end
handlers['job'] = function(self, event)
  local job = event.job
  local what = job.command and 'runs: ' .. words.one_line(job.command) or (job.state or 'ended')
  self:note(('job %s %s'):format(job.job, what))
end
handlers['context'] = function(self, event)
  self:note(event.text)
end
handlers['notice'] = function(self, event)
  self:note(event.text)
end
handlers['compaction.start'] = function(self, event)
  self:enter('compaction')
  local size = event.trigger and (' (%s, from %d tokens)'):format(event.trigger, event.tokens) or ''
  local line = self.writer:line(('**COMPACTING**%s …'):format(size))
  self.compaction = { line = line, about = size }
  self.writer:write('\n')
end
handlers['compaction.delta'] = function(self, event)
  if self.section ~= 'summary' then
    self.section = 'summary'
    self.writer:line('> ')
  end
  self.writer:write((event.delta:gsub('\n', '\n> ')))
end
handlers['compaction.end'] = function(self, event)
  self:compaction_end(event)
end
handlers['usage'] = function(self, event)
  self.usage = event
end
handlers['turn.end'] = function(self, event)
  self:turn_end(event)
end

---Ends the part that is being written.
function Transcript:pause()
  self.writer:paragraph()
  self.section = nil
end

---@param event ds4.Event
function Transcript:event(event)
  local handler = handlers[event.kind]
  if handler then
    handler(self, event)
  end
end

return Transcript
