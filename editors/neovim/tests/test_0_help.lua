local test = ...

local plugin = vim.fs.dirname(vim.fs.dirname(vim.fs.abspath(debug.getinfo(1, 'S').source:sub(2))))

test('the help has unique tags, links that lead somewhere, and every subcommand and option', function()
  local doc = vim.fs.joinpath(vim.fn.tempname(), 'doc')
  vim.fn.mkdir(doc, 'p')
  local lines = vim.fn.readfile(vim.fs.joinpath(plugin, 'doc', 'ds4.txt'))
  vim.fn.writefile(lines, vim.fs.joinpath(doc, 'ds4.txt'))
  vim.cmd.helptags(vim.fn.fnameescape(doc))
  local tags = {}
  for _, file in ipairs({ vim.fs.joinpath(doc, 'tags'), vim.fs.joinpath(vim.env.VIMRUNTIME, 'doc', 'tags') }) do
    for _, line in ipairs(vim.fn.readfile(file)) do
      tags[line:match('^[^\t]+')] = true
    end
  end
  assert(tags['ds4.txt'])
  local text = table.concat(lines, '\n')
  for link in text:gmatch('|([^%s|]+)|') do
    assert(tags[link], ('|%s| leads nowhere'):format(link))
  end
  for name in pairs(require('ds4.command').subcommands) do
    assert(tags[':DS4-' .. name], ('there is no help on :DS4 %s'):format(name))
  end
  for name in pairs(require('ds4.config').values) do
    assert(text:find('\n      ' .. name .. ' = ', 1, true), ('there is no help on the option %s'):format(name))
  end
  for _, line in ipairs(lines) do
    assert(vim.fn.strdisplaywidth(line) <= 90, line)
  end
end)
