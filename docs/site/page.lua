-- What pandoc does to a document on its way to a page of the site: links to documents lead to their pages, everything else that it links
-- to is named in the file `targets` to be copied, and the index of documents becomes the navigation. Variables of the call:
--   page     the document's path in the repository
--   targets  the file in which paths of what must be copied are noted
-- A link to what is not there ends the call.

local page = PANDOC_WRITER_OPTIONS.variables.page
local targets = PANDOC_WRITER_OPTIONS.variables.targets
page, targets = tostring(page), tostring(targets)

local function folder_of(path) return path:match('^(.*/)') or '' end

-- a/b/../c is a/c.
local function normalized(path)
  local parts = {}
  for part in path:gmatch('[^/]+') do
    if part == '..' and #parts > 0 then
      table.remove(parts)
    elseif part ~= '.' then
      table.insert(parts, part)
    end
  end
  return table.concat(parts, '/')
end

local function to_root(path) return ('../'):rep(select(2, path:gsub('/', ''))) end

local function html_of(path) return (path:gsub('README%.md$', 'index.md'):gsub('%.md$', '.html')) end

-- 'file', 'folder' or nil.
local function kind_of(path)
  local file = io.open(path, 'r')
  if not file then return nil end
  local _, _, code = file:read(1)
  file:close()
  return code == 21 and 'folder' or 'file'  -- EISDIR
end

local noted = io.open(targets, 'a')

-- Where a link of the document at `from` leads on this page.
local function rewritten(from, target)
  if target:match('^%a[%w+.-]*:') or target:match('^#') then return target end
  local path, anchor = target:match('^([^#]*)(.*)$')
  path = normalized(folder_of(from) .. path)
  local kind = kind_of(path)
  if not kind then error(from .. ' links to ' .. path .. ', which is not there') end
  if kind == 'file' and path:match('%.md$') then return to_root(page) .. html_of(path) .. anchor end
  if kind == 'folder' and kind_of(path .. '/README.md') then return to_root(page) .. path .. '/index.html' .. anchor end
  noted:write(path, '\n')
  return to_root(page) .. path .. (kind == 'folder' and '/index.html' or '') .. anchor
end

local function links_from(from)
  return {
    Link = function(link)
      link.target = rewritten(from, link.target)
      return link
    end,
    Image = function(image)
      image.src = rewritten(from, image.src)
      return image
    end,
  }
end

local kIndex = 'docs/README.md'

local function navigation()
  local file = assert(io.open(kIndex, 'r'))
  local index = pandoc.read(file:read('a'), 'gfm')
  file:close()
  local here = to_root(page) .. html_of(page)
  local blocks = pandoc.Div(index.blocks):walk(links_from(kIndex)):walk({
    Header = function(header)
      if header.level == 1 then return {} end
      return pandoc.Div({pandoc.Plain(header.content)}, {class = 'group'})
    end,
    Link = function(link)
      if link.target == here then link.attributes['aria-current'] = 'page' end
      return link
    end,
  })
  return pandoc.MetaBlocks({blocks})
end

function Pandoc(doc)
  local title
  doc.blocks = pandoc.Div(doc.blocks):walk(links_from(page)):walk({
    Header = function(header)
      if header.level == 1 then title = title or pandoc.utils.stringify(header) end
    end,
    -- Wide tables scroll by themselves.
    Table = function(found) return pandoc.Div({found}, {class = 'table'}) end,
  }).content
  doc.meta.pagetitle = (title or page) .. (title == 'Headroom' and '' or ' - Headroom')
  doc.meta.root = to_root(page)
  doc.meta.nav = navigation()
  noted:close()
  return doc
end
