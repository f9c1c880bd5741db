-- What the server does, as far as it has said.

local M = {}

---@class ds4.Event
---@field sessionId string
---@field turn integer
---@field kind string
---@field seq? integer
---@field [string] any

---@class ds4.State
---@field state string 'stopped' or a state of the server
---@field session? string the session that did something last
---@field used? integer tokens in the context
---@field size? integer tokens that it can hold
---@field rate? number tokens a second
---@field message? string what is wrong

---@type ds4.State
M.now = { state = 'stopped' }

local POLL = 500
local busy = { loading = true, prefill = true, generating = true, tool = true, compacting = true }
local listeners = {} ---@type fun(event: ds4.Event)[]
local watchers = {} ---@type fun(status: table)[]
local timer ---@type uv_timer?
local asking = false

---Calls `listener` with every event from now on.
---@param listener fun(event: ds4.Event)
function M.subscribe(listener)
  listeners[#listeners + 1] = listener
end

---Calls `watcher` with every result of `ds4.status` from now on.
---@param watcher fun(status: table)
function M.watch(watcher)
  watchers[#watchers + 1] = watcher
end

local function redraw_status()
  vim.cmd.redrawstatus({ bang = true })
end

local function stop_polling()
  if timer then
    timer:stop()
    timer:close()
    timer = nil
  end
end

---@param status? table result of `ds4.status`
function M.take_status(status)
  if not status then
    return
  end
  M.now.state = status.state
  M.now.used, M.now.size = status.context.used, status.context.size
  M.now.rate = status.generation.tokensPerSecond
  M.now.session = status.session and status.session.sessionId or M.now.session
  for _, watcher in ipairs(watchers) do
    watcher(status)
  end
  redraw_status()
end

---Asks for the numbers that no event carries. One question at a time, and none of a server that does not run.
function M.refresh()
  local client = require('ds4.client')
  if asking or not client.get() then
    return
  end
  asking = true
  client.request('ds4.status', nil, function(_, status)
    asking = false
    M.take_status(status)
  end)
end

local function poll()
  if timer then
    return
  end
  local made = assert(vim.uv.new_timer())
  timer = made
  made:start(
    POLL,
    POLL,
    vim.schedule_wrap(function()
      if busy[M.now.state] then
        M.refresh()
      else
        stop_polling()
        M.refresh()
      end
    end)
  )
end

---@param event ds4.Event
function M.event(event)
  if event.kind == 'state' then
    M.now.state = event.state
    if busy[event.state] then
      poll()
    end
    redraw_status()
  elseif event.kind == 'usage' then
    M.now.used, M.now.size = event.context.used, event.context.size
  elseif event.kind == 'turn.start' then
    M.now.session = event.sessionId
  elseif event.kind == 'job' or (event.kind == 'tool.result' and event.name == 'bash') then
    -- A command may have changed files: buffers without changes of their own follow the disk.
    vim.cmd('silent! checktime')
  end
  for _, listener in ipairs(listeners) do
    listener(event)
  end
end

---@param status { health: string, quiescent: boolean, message?: string }
function M.health(status)
  M.now.message = status.health ~= 'ok' and status.message or nil
end

function M.stopped()
  stop_polling()
  asking = false
  M.now = { state = 'stopped' }
  redraw_status()
end

---@return boolean
function M.busy()
  return busy[M.now.state] or false
end

---One line: state, tokens a second, part of the context in use.
---@return string
function M.statusline()
  local now = M.now
  if now.state == 'stopped' then
    return ''
  end
  local parts = { 'ds4 ' .. now.state }
  local progress = require('ds4.progress').line()
  if progress then
    parts[#parts + 1] = progress
  end
  if now.rate and now.rate > 0 then
    parts[#parts + 1] = ('%.1f tok/s'):format(now.rate)
  end
  if now.size and now.size > 0 then
    parts[#parts + 1] = ('ctx %d%%%%'):format(math.floor(100 * (now.used or 0) / now.size + 0.5))
  end
  return table.concat(parts, ' · ')
end

return M
