-- Keeps the words of a Triton's own failure where the access log takes them along: over HTTP they are in the body, which
-- the log does not see. HTTP listener only. Nothing is held back, and no byte of a good answer or a stream is looked at.
-- `generate` answers 400 to whatever a model raises, and 400 is also what a client's mistake gets, which the error repeats:
-- of those only what begins as no client can make it begin.

local MOST = 1024           -- bytes of a body that are kept
local RAISED = '{"error":"Failed to process the request(s) for model '

function envoy_on_response(handle)
  local status = handle:headers():get(":status")
  if status ~= "500" and status ~= "400" then return end
  local said = ""
  for chunk in handle:bodyChunks() do
    local size = math.min(chunk:length(), MOST - #said)
    if size > 0 then said = said .. chunk:getBytes(0, size) end
  end
  if status == "400" and said:gsub("^data: ", ""):sub(1, #RAISED) ~= RAISED then return end
  -- A protobuf string is UTF-8, and a cut may go through the middle of a character.
  handle:streamInfo():dynamicMetadata():set("bimetal", "said", (said:gsub("[^\32-\126]", "?")))
end
