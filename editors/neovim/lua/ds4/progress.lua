-- Work-done progress of the server: shown, and cancelled.

local config = require('ds4.config')

local M = {}

---@class ds4.Work
---@field title string
---@field message? string
---@field percentage? integer

local active = {} ---@type table<string|integer, ds4.Work>
local newest ---@type string|integer?
local client_id ---@type integer?
local COMPACT = 'ds4.nvim/compact/'
local asked = {} ---@type table<string|integer, boolean> tokens of requests to compact that are not answered
local count = 0

---A token for a request to compact; it can be cancelled from now on, before the server tells of any progress.
---@return string
function M.compact_token()
  count = count + 1
  local token = COMPACT .. count
  asked[token] = true
  return token
end

---The request is answered.
---@param token string
function M.compacted(token)
  asked[token] = nil
end

---@param token string|integer
---@return boolean
local function is_compaction(token)
  local work = active[token]
  return work ~= nil and (work.title == 'COMPACTING' or vim.startswith(tostring(token), COMPACT))
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
  local title = is_compaction(token) and 'COMPACTING' or work.title
  vim.notify(('%s: %s'):format(title, text), vim.log.levels.INFO, { title = 'ds4', id = 'ds4.' .. token })
end

---@param params { token: string|integer, value: table }
local function take(params)
  local token, value = params.token, params.value
  if value.kind == 'begin' then
    active[token] = { title = value.title, message = value.message, percentage = value.percentage }
    newest = token
    notify(token, active[token], 'begin')
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
  active, asked, newest = {}, {}, nil
end

---What is under way, in a few words; nil for nothing.
---@return string?
function M.line()
  local work = newest and active[newest]
  if not newest or not work then
    return nil
  end
  local words = { work.message or work.title }
  if is_compaction(newest) then
    table.insert(words, 1, 'COMPACTING')
  end
  if work.percentage and work.percentage > 0 then
    words[#words + 1] = ('%d%%%%'):format(work.percentage)
  end
  return table.concat(words, ' ')
end

---Cancels the compaction that runs or was asked for, and nothing else: a turn that it belongs to goes on.
---@return boolean cancelled
function M.cancel_compaction()
  local tokens = vim.tbl_filter(function(token)
    return is_compaction(token) or asked[token] ~= nil
  end, vim.tbl_keys(vim.tbl_extend('force', asked, active)))
  for _, token in ipairs(tokens) do
    -- Behind the request, which itself may wait for the server to start.
    require('ds4.client').ensure(function(client)
      if client then
        client:notify('window/workDoneProgress/cancel', { token = token })
      end
    end)
  end
  return #tokens > 0
end

return M
