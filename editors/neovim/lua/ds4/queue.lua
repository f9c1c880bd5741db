-- The prompts that wait: to look at, to change, to take back, to send.

local M = {}

---@param command string
---@param item ds4.Queued
---@param arguments? table
local function ask(command, item, arguments)
  arguments = vim.tbl_extend('force', { seq = item.seq, sessionId = item.sessionId }, arguments or {})
  require('ds4.client').request(command, arguments, function(problem)
    if problem then
      vim.notify('ds4: ' .. problem.message, vim.log.levels.ERROR)
    end
  end)
end

---@type table<string, fun(item: ds4.Queued)>
local actions = {
  ['Take back'] = function(item)
    ask('ds4.dequeue', item)
  end,
  ['Edit'] = function(item)
    vim.ui.input({ prompt = 'DS4, queued: ', default = item.text }, function(text)
      if text and vim.trim(text) ~= '' then
        ask('ds4.editQueued', item, { text = text })
      end
    end)
  end,
  ['Send'] = function(item)
    ask('ds4.releaseQueued', item)
  end,
}

---@param item ds4.Queued
local function act(item)
  local names = item.held and { 'Send', 'Edit', 'Take back' } or { 'Edit', 'Take back' }
  vim.ui.select(names, { prompt = require('ds4.words').one_line(item.text) }, function(name)
    if name then
      actions[name](item)
    end
  end)
end

---Lets the user choose one of the prompts that wait, and what to do with it.
function M.choose()
  require('ds4.client').request('ds4.status', nil, function(problem, status)
    if problem or not status then
      return vim.notify('ds4: ' .. (problem and problem.message or 'no answer'), vim.log.levels.ERROR)
    end
    if #status.queue == 0 then
      return vim.notify('ds4: nothing waits', vim.log.levels.INFO)
    end
    vim.ui.select(status.queue, {
      prompt = 'Queued prompts',
      format_item = function(item)
        return (item.held and 'held  ' or 'queued  ') .. require('ds4.words').one_line(item.text)
      end,
    }, function(item)
      if item then
        act(item)
      end
    end)
  end)
end

return M
