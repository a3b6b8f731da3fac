-- Argo CD's health of a VMInfo: Healthy once the VM is found. The health of the VM itself is in the message.
local health = {status = "Progressing", message = "Waiting for Drover"}
local status = obj.status
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "Being deleted"
end
if status == nil or status.conditions == nil or status.observedGeneration ~= obj.metadata.generation then
  return health
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
local ready, stalled = conditions.Ready, conditions.Stalled
if ready == nil then
  return health
end
local own = conditions.Healthy
health.message = ready.message
if ready.status == "True" and own ~= nil and own.status ~= "True" then
  health.message = own.reason .. ": " .. own.message
end
if obj.metadata.deletionTimestamp ~= nil then
  return health
end
if stalled ~= nil and stalled.status == "True" then
  health.status = "Degraded"
elseif ready.status == "True" then
  health.status = "Healthy"
end
return health
