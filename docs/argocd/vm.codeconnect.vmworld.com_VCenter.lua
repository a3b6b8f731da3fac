-- Argo CD's health of a VCenter: Degraded where a person has to act, such as a refused login; Progressing while it is unreachable.
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
health.message = ready.message
if obj.metadata.deletionTimestamp ~= nil then
  return health
end
if stalled ~= nil and stalled.status == "True" then
  health.status = "Degraded"
elseif ready.status == "True" then
  health.status = "Healthy"
end
return health
