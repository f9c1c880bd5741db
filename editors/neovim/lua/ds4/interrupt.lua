-- The key that stops, also when it is <C-c> and Neovim is busy.
--
-- Neovim runs the mapping of <C-c> only where it waits for a key. One that is typed while it handles an event, which is
-- often while text streams in, becomes an interrupt: no mapping is run for it.

local M = {}

local INTERRUPT = vim.keycode('<C-c>')
local stops = {} ---@type table<integer, fun()> by buffer
local watching = false
local presses, mapped = 0, 0

---@param key string
---@param typed string
local function on_key(key, typed)
  if key ~= INTERRUPT and typed ~= INTERRUPT then
    return
  end
  local stop = stops[vim.api.nvim_get_current_buf()]
  local mode = vim.api.nvim_get_mode().mode
  if not stop or (mode ~= 'n' and mode ~= 'i') then
    return
  end
  presses = presses + 1
  local press, before = presses, mapped
  -- A mapping is run before anything that is scheduled. Of several calls for one press the last counts.
  vim.schedule(function()
    if press == presses and before == mapped then
      stop()
    end
  end)
end

---Maps a key of a buffer to `stop`, in Normal and in Insert mode.
---@param buf integer
---@param key string
---@param stop fun()
function M.map(buf, key, stop)
  vim.keymap.set({ 'n', 'i' }, key, function()
    mapped = mapped + 1
    stop()
  end, { buffer = buf, desc = 'DS4: stop', nowait = true })
  if vim.keycode(key) ~= INTERRUPT then
    return
  end
  stops[buf] = stop
  if not watching then
    watching = true
    vim.on_key(on_key)
  end
end

return M
