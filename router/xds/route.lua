-- Names the route of a data request in one header, so that Envoy can pick the model's backends.
-- HTTP: the model is in the path, no body is read. gRPC unary: it is field 1 of ModelInferRequest, read from
-- the frame without copying the tensors. Anything that is not understood here gets no header and goes to the router's
-- control service, which answers as Triton would.

local HEADER = "x-bimetal-route"
local MAX_NAME = 4096

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

-- A protobuf varint at position `at` of `body`: its value and the position after it. nil if it is cut off.
local function varint(body, at, size)
  local window = math.min(10, size - at)
  if window <= 0 then return nil end
  local bytes = body:getBytes(at, window)
  local value, scale = 0, 1
  for i = 1, window do
    local byte = bytes:byte(i)
    value = value + (byte % 128) * scale
    if byte < 128 then return value, at + i end
    scale = scale * 128
  end
  return nil
end

-- model_name of a ModelInferRequest in one uncompressed gRPC frame. Fields may come in any order.
local function grpc_model(body)
  local size = body:length()
  if size < 7 or body:getBytes(0, 1):byte(1) ~= 0 then return nil end
  local at = 5
  while at < size do
    local tag, length
    tag, at = varint(body, at, size)
    if not tag then return nil end
    local wire = tag % 8
    if wire == 2 then
      length, at = varint(body, at, size)
      if not length or at + length > size then return nil end
      if tag == 10 then
        if length == 0 or length > MAX_NAME then return nil end
        return body:getBytes(at, length)
      end
      at = at + length
    elseif wire == 0 then
      length, at = varint(body, at, size)
      if not length then return nil end
    elseif wire == 1 then at = at + 8
    elseif wire == 5 then at = at + 4
    else return nil end
  end
  return nil
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path = headers:get(":path")
  local route
  if path == "/inference.GRPCInferenceService/ModelInfer" then
    local body = handle:body()
    local model = body and grpc_model(body)
    if model and not model:find("[%c]") then route = "unary/" .. model end
  elseif headers:get(":method") == "POST" then
    route = http_route(path)
  end
  if route then
    headers:replace(HEADER, route)
    handle:clearRouteCache()
  end
end
