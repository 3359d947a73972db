-- Names the route of a data request in one header, so that Envoy can pick the model's backends.
-- HTTP: the model is in the path, no body is read. gRPC unary: it is field 1 of ModelInferRequest, read from
-- the frame without copying the tensors. Anything that is not understood here gets no header and goes to the router's
-- control service, which answers as Triton would.

local HEADER = "x-bimetal-route"
local MAX_NAME = 4096
local WINDOW = 128

local function unescape(s)
  return (s:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

local function http_route(path)
  local rest = path:match("^/v2/models/([^?]*)")
  if not rest then return nil end
  local model, action = rest:match("^([^/]+)/versions/[^/]+/([a-z_]+)$")
  if not model then model, action = rest:match("^([^/]+)/([a-z_]+)$") end
  if action == "infer" or action == "generate" then return "unary/" .. unescape(model) end
  if action == "generate_stream" then return "stream/" .. unescape(model) end
  return nil
end

-- A protobuf varint at byte `at` (from 1) of the string `bytes`: its value and the position after it, or nil.
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

-- model_name of a ModelInferRequest in one uncompressed gRPC frame, fields in any order. Reads a window of the body at
-- a time: a tensor that lies before the name is jumped over, not copied.
local function grpc_model(body)
  local size = body:length()
  local start, at = 0, 6
  local window = body:getBytes(0, math.min(size, WINDOW))
  if window:byte(1) ~= 0 then return nil end
  while start + at <= size do
    if at + 20 > #window and start + #window < size then
      start, at = start + at - 1, 1
      window = body:getBytes(start, math.min(size - start, WINDOW))
    end
    local tag, length
    tag, at = varint(window, at)
    if not tag then return nil end
    local wire = tag % 8
    if wire == 2 then
      length, at = varint(window, at)
      if not length then return nil end
      if tag == 10 then
        local first = start + at - 1
        if length == 0 or length > MAX_NAME or first + length > size then return nil end
        if at + length - 1 <= #window then return window:sub(at, at + length - 1) end
        return body:getBytes(first, length)
      end
      at = at + length
    elseif wire == 0 then
      length, at = varint(window, at)
      if not length then return nil end
    elseif wire == 1 then at = at + 8
    elseif wire == 5 then at = at + 4
    else return nil end
  end
  return nil
end

local function route_of(handle)
  local path = handle:headers():get(":path")
  if path == "/inference.GRPCInferenceService/ModelInfer" then
    local body = handle:body()
    local model = body and grpc_model(body)
    return model and not model:find("%c") and "unary/" .. model
  end
  return handle:headers():get(":method") == "POST" and http_route(path)
end

function envoy_on_request(handle)
  local route = route_of(handle)
  if route then
    -- Asked for again: the headers object from before body() is not valid after it.
    handle:headers():replace(HEADER, route)
    handle:clearRouteCache()
  end
end
