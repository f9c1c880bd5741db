-- Work-done progress of the server: shown, and cancelled.

local config = require('ds4.config')
local state = require('ds4.state')

local M = {}

---@class ds4.Work
---@field title string
---@field message? string
---@field percentage? integer

local active = {} ---@type table<string|integer, ds4.Work>
local newest ---@type string|integer?
local client_id ---@type integer?
local COMPACTING = 'COMPACTING'
local compacting = false -- from compaction.start to compaction.end; a request that waits shows progress before that
local unwanted = false -- the running compaction is to be cancelled, and has no token yet
local count = 0

---A token for a request to compact.
---@return string
function M.compact_token()
  count = count + 1
  return 'ds4.nvim/compact/' .. count
end

state.subscribe(function(event)
  if event.kind == 'compaction.start' then
    compacting = true
  elseif event.kind == 'compaction.end' then
    compacting, unwanted = false, false
  end
end)

---@param token string|integer
---@return boolean
local function is_compaction(token)
  local work = active[token]
  return work ~= nil and work.title == COMPACTING
end

---@param token string|integer
---@param work ds4.Work
---@param kind 'begin'|'end'
local function notify(token, work, kind)
  -- Turns are told of in the session's buffer and in the statusline.
  if config.values.progress ~= 'notify' or work.title == 'DS4' then
    return
  end
  local text = kind == 'begin' and (work.message or '…') or ('done' .. (work.message and ': ' .. work.message or ''))
  vim.notify(('%s: %s'):format(work.title, text), vim.log.levels.INFO, { title = 'ds4', id = 'ds4.' .. token })
end

---@param token string|integer
local function cancel(token)
  local client = client_id and vim.lsp.get_client_by_id(client_id)
  if client then
    client:notify('window/workDoneProgress/cancel', { token = token })
  end
end

---@param params { token: string|integer, value: table }
local function take(params)
  local token, value = params.token, params.value
  if value.kind == 'begin' then
    active[token] = { title = value.title, message = value.message, percentage = value.percentage }
    newest = token
    notify(token, active[token], 'begin')
    if unwanted and is_compaction(token) then
      unwanted = false
      cancel(token)
    end
  elseif active[token] and value.kind == 'report' then
    active[token].message = value.message or active[token].message
    active[token].percentage = value.percentage or active[token].percentage
    newest = token
  elseif active[token] and value.kind == 'end' then
    active[token].message = value.message
    notify(token, active[token], 'end')
    active[token] = nil
    newest = next(active)
  end
end

---@param id integer of the client
---@param group integer augroup
function M.watch(id, group)
  active, newest, client_id = {}, nil, id
  vim.api.nvim_create_autocmd('LspProgress', {
    group = group,
    callback = function(event)
      if event.data.client_id == client_id then
        take(event.data.params)
        vim.cmd.redrawstatus({ bang = true })
      end
    end,
  })
end

function M.stopped()
  active, newest = {}, nil
  compacting, unwanted = false, false
end

---What is under way, in a few words; nil for nothing.
---@return string?
function M.line()
  local work = newest and active[newest]
  if not newest or not work then
    return nil
  end
  local words = { work.message or work.title }
  if work.message and is_compaction(newest) then
    table.insert(words, 1, COMPACTING)
  end
  if work.percentage and work.percentage > 0 then
    words[#words + 1] = ('%d%%%%'):format(work.percentage)
  end
  return table.concat(words, ' ')
end

---Cancels the compaction that runs, and nothing else: a turn that it belongs to goes on.
---@return boolean cancelled false where none runs, though one may have been asked for
function M.cancel_compaction()
  if not compacting then
    return false
  end
  local tokens = vim.tbl_filter(is_compaction, vim.tbl_keys(active))
  for _, token in ipairs(tokens) do
    cancel(token)
  end
  unwanted = #tokens == 0
  return true
end

return M
