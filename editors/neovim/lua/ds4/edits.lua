-- Edits of the server, applied to live buffers: wholly or not at all, and never on text that the
-- server has not seen. The server's side is in the guide to guarded edits.

local ask = require('ds4.ask')
local crc32 = require('ds4.crc32')
local files = require('ds4.files')
local text = require('ds4.text')

local M = {}

---@class ds4.Guard
---@field uri string
---@field version? integer of the document as the server knows it
---@field fileTag? string CRC-32 of its text; nil: the file must not exist

---@class ds4.Change
---@field uri string
---@field version? integer
---@field create boolean
---@field edits ds4.TextEdit[]

---@class ds4.Planned: ds4.Change
---@field file ds4.File
---@field before string
---@field after string

---@class ds4.Answer
---@field applied boolean
---@field failureReason? string
---@field fileTag? string
---@field saved? boolean

---@param edit table a `WorkspaceEdit`
---@return ds4.Change[]? changes
---@return string? reason
local function changes_of(edit)
  local changes = {} ---@type ds4.Change[]
  local created = {} ---@type table<string, boolean>
  for uri, edits in pairs(edit.documentChanges and {} or edit.changes or {}) do
    changes[#changes + 1] = { uri = uri, create = false, edits = edits }
  end
  for _, change in ipairs(edit.documentChanges or {}) do
    if change.kind == 'create' then
      created[change.uri] = true
    elseif change.kind then
      return nil, ('the operation %s is not supported'):format(change.kind)
    else
      local document = change.textDocument
      changes[#changes + 1] = {
        uri = document.uri,
        version = document.version,
        create = created[document.uri] or false,
        edits = change.edits,
      }
      created[document.uri] = nil
    end
  end
  for uri in pairs(created) do
    changes[#changes + 1] = { uri = uri, create = true, edits = {} }
  end
  return changes
end

---Why the document is not what the server takes it for; nil when it is.
---@param planned ds4.Planned
---@param guard? ds4.Guard
---@return string?
local function moved_on(planned, guard)
  local buf = planned.file.buf
  if not vim.api.nvim_buf_is_loaded(buf) then
    return 'the file was closed meanwhile'
  end
  local version = planned.version or (guard and guard.version)
  if version and version ~= vim.lsp.util.buf_versions[buf] then
    return 'the document was changed meanwhile'
  end
  local now = text.of(buf)
  if planned.create and (now ~= '' or vim.uv.fs_lstat(planned.file.path)) then
    return 'the file exists already'
  end
  if guard and guard.fileTag and crc32(now) ~= guard.fileTag then
    return 'the text is not the one that was seen'
  end
  if planned.before ~= now then
    return 'the document was changed meanwhile'
  end
  if not vim.bo[buf].modifiable then
    return 'the buffer is not modifiable'
  end
  return nil
end

---Opens every document and works out its new text. Changes nothing.
---@param changes ds4.Change[]
---@param guards table<string, ds4.Guard>
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@param keep boolean files stay open afterwards
---@return ds4.Planned[] plan also what was opened before a problem was found
---@return string? reason
local function make_plan(changes, guards, encoding, keep)
  local plan = {} ---@type ds4.Planned[]
  for _, change in ipairs(changes) do
    local file, reason = files.open(change.uri, keep)
    if not file then
      return plan, reason
    end
    local before = text.of(file.buf)
    local added = { file = file, before = before, after = before }
    local planned = vim.tbl_extend('error', change, added) --[[@as ds4.Planned]]
    plan[#plan + 1] = planned
    reason = moved_on(planned, guards[change.uri])
    if reason then
      return plan, reason
    end
    local after, problem = text.edited(before, change.edits, encoding)
    if not after then
      return plan, problem
    end
    planned.after = after
  end
  return plan
end

---@param plan ds4.Planned[]
---@param edit table
---@param label? string
---@return boolean
local function confirmed(plan, edit, label)
  local asked = false
  for _, annotation in pairs(edit.changeAnnotations or {}) do
    asked = asked or annotation.needsConfirmation == true
  end
  if not asked then
    return true
  end
  local parts = {}
  for _, planned in ipairs(plan) do
    parts[#parts + 1] = vim.fn.fnamemodify(planned.file.path, ':~:.')
    parts[#parts + 1] = vim.diff(planned.before, planned.after, { ctxlen = 3 }) --[[@as string]]
  end
  local choice = ask.choose({
    title = label or 'Apply this edit?',
    detail = table.concat(parts, '\n'),
    filetype = 'diff',
    choices = { 'Reject', 'Apply' },
  })
  return choice == 'Apply'
end

---@param params { edit: table, label?: string, guards?: ds4.Guard[], save?: boolean }
---@param client vim.lsp.Client
---@param keep boolean
---@return ds4.Answer
local function apply(params, client, keep)
  local changes, reason = changes_of(params.edit)
  if not changes then
    return { applied = false, failureReason = reason }
  end
  local guards = {} ---@type table<string, ds4.Guard>
  for _, guard in ipairs(params.guards or {}) do
    guards[guard.uri] = guard
  end
  local plan
  plan, reason = make_plan(changes, guards, client.offset_encoding --[[@as 'utf-8'|'utf-16'|'utf-32']], keep)
  local rejected = false
  if not reason and not confirmed(plan, params.edit, params.label) then
    rejected = true
  elseif not reason then
    -- The user may have typed while they were asked.
    for _, planned in ipairs(plan) do
      reason = reason or moved_on(planned, guards[planned.uri]) or files.refusal(planned.file, planned.after)
    end
  end
  if reason or rejected then
    for _, planned in ipairs(plan) do
      files.close(planned.file)
    end
    return { applied = false, failureReason = reason }
  end
  local saved = params.save == true
  for _, planned in ipairs(plan) do
    files.set_text(planned.file, planned.after)
    local written, problem = true, nil
    if params.save then
      written, problem = files.save(planned.file, planned.create)
      saved = saved and written
    end
    if not written and not planned.file.was_loaded then
      -- Nobody has seen this buffer, and the file is as it was: so nothing has happened.
      files.close(planned.file)
      return { applied = false, failureReason = problem }
    end
    if not written then
      vim.notify(('ds4: %s was changed, but not saved: %s'):format(planned.file.path, problem), vim.log.levels.WARN)
    end
  end
  local tag = plan[1] and crc32(text.of(plan[1].file.buf)) or nil
  for _, planned in ipairs(plan) do
    files.done(planned.file, params.save == true)
  end
  return { applied = true, fileTag = tag, saved = saved }
end

---@param client_id integer
---@return vim.lsp.Client
local function client_of(client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  if not client then
    error('the server has ended')
  end
  return client
end

---Handler of `ds4/applyGuardedEdit`.
---@param params { edit: table, label?: string, guards: ds4.Guard[], save: boolean }
---@param context { client_id: integer }
---@return ds4.Answer
function M.on_guarded(_, params, context)
  return apply(params, client_of(context.client_id), false)
end

---Handler of `workspace/applyEdit`: unlike the built-in one it checks every document before it
---changes any, version 0 included, and does not call an edit applied that was skipped.
---@param params { edit: table, label?: string }
---@param context { client_id: integer }
---@return ds4.Answer
function M.on_apply(_, params, context)
  return apply({ edit = params.edit, label = params.label }, client_of(context.client_id), true)
end

---Handler of `ds4/saveDocument`.
---@param params { uri: string }
---@return { saved: boolean }
function M.on_save(_, params)
  local buf = vim.fn.bufnr(vim.uri_to_fname(params.uri))
  if buf < 0 or not vim.api.nvim_buf_is_loaded(buf) then
    return { saved = false }
  end
  local path = vim.api.nvim_buf_get_name(buf)
  local saved = files.save({ buf = buf, path = path, was_loaded = true, existed = true }, false)
  return { saved = saved }
end

return M
