-- Health of MediaAccount, MediaSettings, MediaWebhook and RetainedMediaAccount in Argo CD. It says what
-- kstatus says: Healthy and Suspended are Current, Degraded is Failed, Progressing is the rest.

local function condition(kind)
  if obj.status ~= nil and obj.status.conditions ~= nil then
    for _, c in ipairs(obj.status.conditions) do
      if c.type == kind then
        return c
      end
    end
  end
  return { status = "Unknown", reason = "", message = "The operator has not reported yet" }
end

local function health(status, message)
  return { status = status, message = message }
end

local ready, stalled = condition("Ready"), condition("Stalled")

if obj.metadata.deletionTimestamp ~= nil then
  -- A deletion that waits for somebody must not look like one that goes on.
  if stalled.status == "True" then
    return health("Degraded", stalled.message)
  end
  if ready.reason == "Deleting" then
    return health("Progressing", ready.message)
  end
  return health("Progressing", "The object is being deleted")
end
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  if ready.status == "False" and ready.observedGeneration == obj.metadata.generation then
    return health("Progressing", ready.message)
  end
  return health("Progressing", "The operator has not handled this generation of the spec yet")
end
if stalled.status == "True" then
  return health("Degraded", stalled.message)
end
if ready.status ~= "True" then
  return health("Progressing", ready.message)
end
if ready.reason == "Suspended" then
  return health("Suspended", ready.message)
end
local storage = condition("StorageAvailable")
if storage.status == "False" then
  return health("Healthy", storage.message)
end
return health("Healthy", ready.message)
