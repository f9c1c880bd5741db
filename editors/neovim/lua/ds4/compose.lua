-- The prompt's buffer and window, below the session's.

local config = require('ds4.config')
local view = require('ds4.view')

local M = {}

local prompt ---@type integer?
local context ---@type table[]?
local marks = vim.api.nvim_create_namespace('ds4.context')

---The prompt's buffer, where there is one.
---@return integer?
function M.buffer()
  return prompt and vim.api.nvim_buf_is_valid(prompt) and prompt or nil
end

---@return integer buf
local function ensure()
  local buf = M.buffer()
  if not buf then
    buf = view.create('ds4://prompt')
    prompt = buf
    local keys = config.values.keys
    view.map(buf, 'n', keys.send, M.send, 'send the prompt')
    view.map(buf, 'i', keys.send_insert, M.send, 'send the prompt')
    vim.bo[buf].omnifunc = "v:lua.require'ds4.slash'.omnifunc"
  end
  return buf
end

---Shows the prompt's window below the session's.
---@param window integer
function M.open(window)
  local buf = ensure()
  if view.window_of(buf) then
    return
  end
  local below = vim.api.nvim_open_win(buf, false, {
    split = 'below',
    win = window,
    height = config.values.prompt_height,
  })
  local options = vim.wo[below][0]
  options.winfixheight, options.number, options.relativenumber = true, false, false
  options.signcolumn, options.wrap = 'no', true
  options.winbar = '%#Title# prompt %*  ' .. (config.values.keys.send or '') .. ' sends'
end

---Lets the user write a prompt, about a place where one is given.
---@param places? table[]
function M.compose(places)
  view.open()
  context = places
  local buf = ensure()
  vim.api.nvim_buf_clear_namespace(buf, marks, 0, -1)
  if places and places[1] then
    local name = vim.fn.fnamemodify(vim.uri_to_fname(places[1].uri), ':~:.')
    local range = places[1].range
    local lines = range and (':%d-%d'):format(range.start.line + 1, range['end'].line + 1) or ''
    vim.api.nvim_buf_set_extmark(buf, marks, 0, 0, {
      virt_text = { { 'about ' .. name .. lines, 'Comment' } },
      virt_text_pos = 'right_align',
    })
  end
  vim.api.nvim_set_current_win(assert(view.window_of(buf)))
  vim.cmd.startinsert({ bang = true })
end

---Puts back a prompt that was refused, before what was written meanwhile.
---@param text string
local function take_back(text)
  local buf = ensure()
  local written = vim.api.nvim_buf_get_lines(buf, 0, -1, true)
  local empty = #written == 1 and written[1] == ''
  local lines = vim.split(text, '\n', { plain = true })
  vim.api.nvim_buf_set_lines(buf, 0, empty and -1 or 0, true, lines)
end

---Sends what is written in the prompt's buffer.
function M.send()
  local buf = ensure()
  local text = table.concat(vim.api.nvim_buf_get_lines(buf, 0, -1, true), '\n')
  if vim.trim(text) == '' then
    return
  end
  vim.cmd.stopinsert()
  vim.api.nvim_buf_clear_namespace(buf, marks, 0, -1)
  vim.api.nvim_buf_set_lines(buf, 0, -1, true, {})
  local places = context
  context = nil
  require('ds4').prompt(text, { context = places }, function(problem)
    -- A refusal: the log has no such prompt. One whose server ended is there, and comes back with it.
    if problem and type(problem.data) == 'table' and problem.data.code then
      take_back(text)
    end
  end)
end

return M
