-- The editor's screen as an SVG image.

local WIDTH, HEIGHT, MARGIN = 8.43, 18, 12

---Collects the screen's cells, in the editor: rows of runs of equal attributes.
local COLLECT = [[
  -- The first inspection makes Neovim keep account of highlights; what was drawn before has to be drawn again.
  vim.api.nvim__inspect_cell(1, 0, 0)
  vim.cmd.redraw({ bang = true })
  local normal = vim.api.nvim_get_hl(0, { name = 'Normal' })
  -- Floating windows are not in the grid that can be inspected: their text is, in what the screen shows.
  local over = vim.api.nvim_get_hl(0, { name = 'NormalFloat' })
  local floats = {}
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= '' then
      local at = vim.api.nvim_win_get_position(window)
      local bottom = at[1] + vim.api.nvim_win_get_height(window) + 1
      local right = at[2] + vim.api.nvim_win_get_width(window) + 1
      floats[#floats + 1] = { top = at[1], left = at[2], bottom = bottom, right = right }
    end
  end
  local rows = {}
  for row = 0, vim.o.lines - 1 do
    local runs, last = {}, nil
    for column = 0, vim.o.columns - 1 do
      local cell = vim.api.nvim__inspect_cell(1, row, column)
      local attributes = cell[2] or {}
      local foreground, background = attributes.foreground or normal.fg, attributes.background or normal.bg
      if attributes.reverse then
        foreground, background = background, foreground
      end
      for _, float in ipairs(floats) do
        if row >= float.top and row <= float.bottom and column >= float.left and column <= float.right then
          cell = { vim.fn.screenstring(row + 1, column + 1), {} }
          foreground, background = over.fg or normal.fg, over.bg or normal.bg
        end
      end
      local style = { foreground, background, attributes.bold or false, attributes.italic or false }
      if last and vim.deep_equal(last.style, style) then
        last.text = last.text .. (cell[1] or '')
        last.width = last.width + 1
      else
        last = { text = cell[1] or '', style = style, column = column, width = 1 }
        runs[#runs + 1] = last
      end
    end
    rows[#rows + 1] = runs
  end
  return { rows = rows, background = normal.bg, columns = vim.o.columns }
]]

---@param text string
---@return string
local function escape(text)
  -- Ordinary spaces are collapsed.
  return (text:gsub('[&<> ]', { ['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', [' '] = '\194\160' }))
end

---@param color integer
---@return string
local function hex(color)
  return ('#%06x'):format(color)
end

---@param screen { rows: table[][], background: integer, columns: integer }
---@param path string
local function write(screen, path)
  local width = math.ceil(screen.columns * WIDTH + 2 * MARGIN)
  local height = #screen.rows * HEIGHT + 2 * MARGIN
  local parts = {
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">'):format(
      width,
      height,
      width,
      height
    ),
    ('<rect width="100%%" height="100%%" rx="8" fill="%s"/>'):format(hex(screen.background)),
    '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14">',
  }
  for number, runs in ipairs(screen.rows) do
    local y = MARGIN + (number - 1) * HEIGHT
    for _, run in ipairs(runs) do
      local foreground, background, bold, italic = unpack(run.style)
      local x, length = MARGIN + run.column * WIDTH, run.width * WIDTH
      if background ~= screen.background then
        local box = '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>'
        parts[#parts + 1] = box:format(x, y, length, HEIGHT, hex(background))
      end
      if run.text:find('%S') then
        local look = (bold and ' font-weight="bold"' or '') .. (italic and ' font-style="italic"' or '')
        local text = '<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s>%s</text>'
        parts[#parts + 1] = text:format(x, y + 13, length, hex(foreground), look, escape(run.text))
      end
    end
  end
  vim.list_extend(parts, { '</g>', '</svg>', '' })
  vim.fn.mkdir(vim.fs.dirname(path), 'p')
  local file = assert(io.open(path, 'wb'))
  file:write(table.concat(parts, '\n'))
  file:close()
end

return { COLLECT = COLLECT, write = write }
