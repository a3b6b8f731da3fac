-- Argo CD's health of a VmGroup: Suspended while it is paused, Degraded where a person has to act.
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
elseif obj.spec.paused then
  health.status = "Suspended"
elseif ready.status == "True" then
  health.status = "Healthy"
end
return health
