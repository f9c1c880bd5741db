-- Questions of the server. Whatever is not a clear yes is a no.

local M = {}

local open = {} ---@type table<table, fun()> how to withdraw each question that is not answered

---@class ds4.Question
---@field title string
---@field detail string shown in full
---@field filetype? string of the detail
---@field choices string[] the first one is the no

---A window in the middle of the screen, which does not take the focus.
---@param question ds4.Question
---@return fun() close
local function show(question)
  local lines = vim.split(question.detail, '\n', { plain = true })
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buf, 0, -1, true, lines)
  vim.bo[buf].bufhidden = 'wipe'
  vim.bo[buf].filetype = question.filetype or ''
  local title = ' DS4: ' .. question.title .. ' '
  local width = vim.fn.strdisplaywidth(title) + 2
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  width = math.min(width, math.max(20, vim.o.columns - 8))
  local height = 0
  for _, line in ipairs(lines) do
    height = height + math.max(1, math.ceil(vim.fn.strdisplaywidth(line) / width))
  end
  height = math.max(1, math.min(height, vim.o.lines - 10))
  local window = vim.api.nvim_open_win(buf, false, {
    relative = 'editor',
    row = math.max(0, math.floor((vim.o.lines - height) / 3)),
    col = math.max(0, math.floor((vim.o.columns - width) / 2)),
    width = width,
    height = height,
    style = 'minimal',
    border = 'rounded',
    title = title,
  })
  vim.wo[window].wrap = true
  return function()
    if vim.api.nvim_win_is_valid(window) then
      vim.api.nvim_win_close(window, true)
    end
  end
end

---Asks with `vim.ui.select`. To be called in a coroutine.
---@param question ds4.Question
---@return string? choice nil when nothing was chosen, or the question was withdrawn
function M.choose(question)
  local thread = assert(coroutine.running(), 'a question has to be asked in a coroutine')
  local close = show(question)
  local asking, withdrawn = true, false

  ---The first end counts: a picker that knows nothing of the others may still answer.
  ---@param choice? string
  local function finish(choice)
    if not open[question] then
      return
    end
    open[question] = nil
    close()
    local ok, problem = coroutine.resume(thread, not withdrawn and choice or nil)
    if not ok then
      vim.notify('ds4: ' .. tostring(problem), vim.log.levels.ERROR)
    end
  end

  open[question] = function()
    withdrawn = true
    close()
    vim.notify(('ds4: withdrawn: %s'):format(question.title), vim.log.levels.INFO)
    if asking then
      -- The picker holds the editor until it gets a key.
      vim.api.nvim_input('<Esc>')
    else
      finish()
    end
  end

  vim.cmd.redraw()
  vim.ui.select(question.choices, {
    prompt = question.title .. '\n' .. question.detail .. '\n',
    kind = 'ds4',
  }, function(choice)
    -- The default `vim.ui.select` answers before it returns: the yield has to come first.
    vim.schedule(function()
      finish(choice)
    end)
  end)
  asking = false
  if withdrawn then
    vim.schedule(finish)
  end
  return coroutine.yield()
end

---Takes every open question back: whoever asked waits no longer. Neovim tells no handler the number of its request, so
---that one cancelled request takes back a question that was asked beside it, too; that is a no.
function M.withdraw()
  for _, withdraw in ipairs(vim.tbl_values(open)) do
    withdraw()
  end
end

---Handler of `window/showMessageRequest`.
---@param params { message: string, actions?: { title: string }[] }
---@return any action
function M.on_request(_, params)
  local title, detail = params.message:match('^([^\n]*)\n(.*)$')
  local choices = {}
  for _, action in ipairs(params.actions or {}) do
    choices[#choices + 1] = action.title
  end
  -- The server puts the no last; a slip of the finger takes the first.
  local ordered = { table.remove(choices) }
  vim.list_extend(ordered, choices)
  local choice = M.choose({
    title = title or params.message,
    detail = detail or '',
    choices = ordered,
  })
  return choice and { title = choice } or vim.NIL
end

return M
