-- Names the route of a data request in one header, so that Envoy can pick the model's backends.
-- HTTP: the model is in the path. gRPC unary: it is in the message, of which only what lies before the tensors is read.
-- The route says (in its metadata) whether more must be known: the sequence of a stateful model, the batch of a model
-- with size classes. What is not understood here gets no header and goes to the router's control service, which answers
-- as Triton would.

local ROUTE = "x-bimetal-route"
local SEQUENCE = "x-bimetal-sequence"
local INFER = "/inference.GRPCInferenceService/ModelInfer"
local MAX_NAME = 4096
local WINDOW = 256          -- bytes of a gRPC message looked at together
local JSON_WINDOW = 2^20    -- bytes of an HTTP body in which sequence and shape are looked for

-- As Triton reads a path: no escape is decoded, a version is a number.
local function http_route(path)
  local rest = path:match("^/v2/models/([^?]*)")
  if not rest then return nil end
  local model, action = rest:match("^([^/]+)/versions/%d+/([a-z_]+)$")
  if not model then model, action = rest:match("^([^/]+)/([a-z_]+)$") end
  if action == "infer" or action == "generate" then return "unary", model end
  if action == "generate_stream" then return "stream", model end
  return nil
end

-- Protobuf ------------------------------------------------------------------------------------------------------------

-- A varint at byte `at` (from 1) of the string `bytes`: its value and the position after it, or nil.
local function varint(bytes, at)
  local value, scale = 0, 1
  for i = at, at + 9 do
    local byte = bytes:byte(i)
    if not byte then return nil end
    value = value + (byte % 128) * scale
    if byte < 128 then return value, i + 1 end
    scale = scale * 128
  end
  return nil
end

-- The field at `at`: number, wire type, position and length of its content, and the position after it. nil if damaged.
local function field(bytes, at)
  local tag, value, first
  tag, first = varint(bytes, at)
  if not tag then return nil end
  local wire, number = tag % 8, math.floor(tag / 8)
  if wire == 0 then
    value, at = varint(bytes, first)
    if not value then return nil end
    return number, wire, first, at - first, at
  elseif wire == 1 then return number, wire, first, 8, first + 8
  elseif wire == 5 then return number, wire, first, 4, first + 4
  elseif wire == 2 then
    value, first = varint(bytes, first)
    if not value then return nil end
    return number, wire, first, value, first + value
  end
  return nil
end

-- Calls visit(number, first, length, bytes) for each field of the message in `bytes`.
local function each_field(bytes, visit)
  local at = 1
  while at <= #bytes do
    local number, _, first, length, after = field(bytes, at)
    if not number then return end
    visit(number, first, length, bytes)
    at = after
  end
end

-- Calls visit(number, content) for each field of the message in one uncompressed gRPC frame, in any order; content is a
-- function that copies it. A tensor is jumped over, not copied. Stops when visit returns true.
local function each_frame_field(body, visit)
  local size = body:length()
  if size < 7 then return end
  local start, at = 0, 6
  local window = body:getBytes(0, math.min(size, WINDOW))
  if window:byte(1) ~= 0 then return end
  while start + at <= size do
    if at + 20 > #window and start + #window < size then
      start, at = start + at - 1, 1
      window = body:getBytes(start, math.min(size - start, WINDOW))
    end
    local number, _, first, length, after = field(window, at)
    if not number then return end
    local offset = start + first - 1
    if offset + length > size then return end
    local copy = function()
      if after - 1 <= #window then return window:sub(first, after - 1) end
      return body:getBytes(offset, length)
    end
    if visit(number, length, copy) then return end
    at = after
  end
end

local function grpc_model(body)
  local model
  each_frame_field(body, function(number, length, copy)
    if number ~= 1 then return false end
    if length > 0 and length <= MAX_NAME then model = copy() end
    return true
  end)
  return model and not model:find("%c") and model or nil
end

-- The sequence_id of a `parameters` entry {1: key, 2: {2: int64 | 3: string | 5: uint64}}; nil for another key.
local function sequence_of_entry(entry)
  local key, id
  each_field(entry, function(number, first, length, bytes)
    local content = bytes:sub(first, first + length - 1)
    if number == 1 then key = content
    elseif number == 2 then
      each_field(content, function(kind, value_first, value_length, value)
        if kind == 2 or kind == 5 then id = value:sub(value_first, value_first + value_length - 1)
        elseif kind == 3 then id = value:sub(value_first, value_first + value_length - 1) end
      end)
    end
  end)
  return key == "sequence_id" and id or nil
end

-- The first dimension of an `inputs` entry, whose field 3 is `shape` (packed or not).
local function batch_of_input(input)
  local batch
  each_field(input, function(number, first, _, bytes)
    if number == 3 and not batch then batch = varint(bytes, first) end
  end)
  return batch
end

local function hex(bytes)
  return (bytes:gsub(".", function(c) return string.format("%02x", c:byte()) end))
end

-- A whole number as protobuf would write it, so that a sequence has one name over gRPC and HTTP.
local function varint_of(number)
  local bytes = {}
  while number >= 128 do
    bytes[#bytes + 1] = string.char(number % 128 + 128)
    number = math.floor(number / 128)
  end
  bytes[#bytes + 1] = string.char(number)
  return table.concat(bytes)
end

local function grpc_facts(body)
  local sequence, batch
  each_frame_field(body, function(number, _, copy)
    if number == 4 then
      local id = sequence_of_entry(copy())
      if id and id ~= "" and id ~= "\0" then sequence = hex(id) end
    elseif number == 5 and not batch then batch = batch_of_input(copy()) end
    return false
  end)
  return sequence, batch
end

-- JSON ----------------------------------------------------------------------------------------------------------------

-- A quote inside a JSON string is escaped, so `"sequence_id"` with plain quotes is a key.
local function http_facts(body)
  local text = body:getBytes(0, math.min(body:length(), JSON_WINDOW))
  local sequence = text:match('"sequence_id"%s*:%s*"([^"]+)"')
  local number = tonumber(text:match('"sequence_id"%s*:%s*(%d+)') or 0)
  if number > 0 then sequence = varint_of(number) end
  return sequence and hex(sequence), tonumber(text:match('"shape"%s*:%s*%[%s*(%d+)') or nil)
end

------------------------------------------------------------------------------------------------------------------------

local function take(handle, kind, model)
  handle:headers():replace(ROUTE, kind .. "/" .. model)
  handle:clearRouteCache()
end

function envoy_on_request(handle)
  local path = handle:headers():get(":path")
  local grpc, kind, model, body = path == INFER, "unary", nil, nil
  if grpc then
    body = handle:body()
    model = body and grpc_model(body)
  elseif handle:headers():get(":method") == "POST" then
    kind, model = http_route(path)
  end
  if not model then return end
  take(handle, kind, model)
  local stateful, large_from = handle:metadata():get("stateful"), handle:metadata():get("large_from")
  if not stateful and not large_from then return end
  if not grpc and handle:headers():get("content-encoding") then
    -- Not readable here. All such requests of a stateful model share one backend, so that its sequences hold together.
    if stateful then handle:headers():replace(SEQUENCE, "compressed") end
    return
  end
  body = body or handle:body()
  if not body then return end
  local sequence, batch = (grpc and grpc_facts or http_facts)(body)
  -- Headers are asked for again each time: the object from before body() is not valid after it.
  if stateful and sequence then handle:headers():replace(SEQUENCE, sequence) end
  if large_from and kind == "unary" and batch and batch >= large_from then take(handle, "large", model) end
end
