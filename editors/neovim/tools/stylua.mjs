// Formats Lua files with StyLua as it is packaged for Node: node stylua.mjs [--check] PACKAGE STYLUA.TOML FILE…
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const words = process.argv.slice(2)
const check = words[0] === '--check'
const [packageDirectory, settings, ...files] = check ? words.slice(1) : words
const stylua = createRequire(`${packageDirectory}/`)('@johnnymorganz/stylua')

const enumerations = {
  syntax: stylua.LuaVersion,
  line_endings: stylua.LineEndings,
  indent_type: stylua.IndentType,
  quote_style: stylua.QuoteStyle,
  call_parentheses: stylua.CallParenType,
}

function configuration() {
  const config = stylua.Config.new()
  for (const line of readFileSync(settings, 'utf8').split('\n')) {
    const found = line.match(/^(\w+) = "?(\w+)"?$/)
    if (!found) continue
    const [, key, value] = found
    const known = enumerations[key]
    const parsed = known ? known[value] : Number(value)
    if (parsed === undefined || Number.isNaN(parsed)) throw new Error(`${settings}: ${line}`)
    config[key] = parsed
  }
  return config
}

let failed = false
for (const file of files) {
  const before = readFileSync(file, 'utf8')
  const after = stylua.formatCode(before, configuration(), undefined, stylua.OutputVerification.Full)
  if (after === before) continue
  if (check) {
    const lines = after.split('\n')
    const differs = before.split('\n').findIndex((line, index) => line !== lines[index])
    console.error(`${file}:${differs + 1}: not formatted as StyLua does`)
    failed = true
  } else {
    writeFileSync(file, after)
  }
}
process.exit(failed ? 1 : 0)
