//! A sequence, played: each declaration is refused with a sentence, or comes to something that the object says of itself; the last one,
//! which is valid, is always reached.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Failure, Namespace, Sandbox, Vm, World};
use serde_json::{Value, json};

use crate::plans::{Edit, Plan};

/// How long an object may take to say what became of an edit.
const SAYS: Duration = Duration::from_secs(30);
/// After this, one that is at work is left at it: the next edit comes in the middle, as people's do.
const MIDST: Duration = Duration::from_secs(3);
/// How long the last declaration may take.
const REACHED: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(250);

/// What became of edits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) refused: u64,
    pub(crate) ready: u64,
    pub(crate) stalled: u64,
    pub(crate) at_work: u64,
}

/// What an object says of itself.
enum Word {
    Ready,
    Stalled,
    AtWork,
}

/// Plays a sequence in a namespace that has nothing else, and says what is wrong with it.
pub(crate) fn play(sandbox: &Sandbox, namespace: &Namespace, plan: &Plan) -> Result<Tally, String> {
    let player = Player { sandbox, plan, namespace };
    let mut tally = Tally::default();
    for edit in &plan.edits {
        player.try_edit(edit, &mut tally).map_err(|wrong| format!("{}: {wrong}", shown(&edit.spec)))?;
    }
    player.reach_last()?;
    player.end()?;
    Ok(tally)
}

struct Player<'a> {
    sandbox: &'a Sandbox,
    plan: &'a Plan,
    namespace: &'a Namespace,
}

impl Player<'_> {
    fn name(&self) -> String {
        format!("o-{}-{}", self.plan.seed, self.plan.number)
    }

    fn kind(&self) -> String {
        self.plan.kind.to_lowercase()
    }

    fn declare(&self, spec: &Value) -> Result<Value, Failure> {
        self.namespace.declare(&json!({
            "apiVersion": self.plan.api, "kind": self.plan.kind, "metadata": {"name": self.name()}, "spec": spec,
        }))
    }

    fn get(&self) -> Result<Value, Failure> {
        self.namespace.get(&self.kind(), &self.name())
    }

    /// Makes an edit, and waits for what becomes of it.
    fn try_edit(&self, edit: &Edit, tally: &mut Tally) -> Result<(), String> {
        let before = self.get().map_or(Value::Null, |object| object["metadata"]["generation"].clone());
        if let Err(failure) = self.declare(&edit.spec) {
            tally.refused += 1;
            let after = self.get().map_or(Value::Null, |object| object["metadata"]["generation"].clone());
            if before != after {
                return Err(format!("it was refused, and changed the object all the same: {failure}"));
            }
            return is_refusal(edit, &failure.stderr);
        }
        if edit.has_to_be_refused {
            return Err("it is against a rule, and was let in".to_owned());
        }
        let began = Instant::now();
        loop {
            let object = self.get().map_err(|failure| failure.to_string())?;
            match word(&object) {
                Some(Word::Ready) => {
                    tally.ready += 1;
                    self.world(&object)?;
                }
                Some(Word::Stalled) => tally.stalled += 1,
                Some(Word::AtWork) if began.elapsed() > MIDST => tally.at_work += 1,
                _ if began.elapsed() > SAYS => {
                    return Err(format!("after {SAYS:?} its status is {}", object["status"]));
                }
                _ => {
                    thread::sleep(LOOK);
                    continue;
                }
            }
            return names_the_field(edit, &object);
        }
    }

    /// Declares what is valid, and waits until it is so, in the world too.
    fn reach_last(&self) -> Result<(), String> {
        let began = Instant::now();
        let mut declared = self.declare(&self.plan.last);
        loop {
            let complaint = match &declared {
                Err(failure) => failure.to_string(),
                Ok(_) => match self.get() {
                    Ok(object) if matches!(word(&object), Some(Word::Ready)) => match self.world(&object) {
                        Ok(()) => return Ok(()),
                        Err(wrong) => wrong,
                    },
                    Ok(object) => object["status"].to_string(),
                    Err(failure) => failure.to_string(),
                },
            };
            if began.elapsed() > REACHED {
                return Err(format!("{REACHED:?} after the last, valid declaration: {complaint}"));
            }
            thread::sleep(LOOK);
            if declared.is_err() {
                declared = self.declare(&self.plan.last);
            }
        }
    }

    /// Whether the VMs of a group are as it declares, where it says so.
    fn world(&self, object: &Value) -> Result<(), String> {
        if self.plan.kind != "VmGroup" {
            return Ok(());
        }
        let (uid, spec) = (object["metadata"]["uid"].as_str().unwrap_or_default(), &object["spec"]);
        let world = World::look(self.sandbox.vcenter())?;
        let members: Vec<_> = world.made_by(uid).collect();
        let power = match spec["powerState"].as_str() {
            Some("Off") => "poweredOff",
            Some("Suspended") => "suspended",
            _ => "poweredOn",
        };
        let memory = spec["memory"].as_u64().unwrap_or(0) * 1024;
        // With OnDelete, VMs stay as they are when the spec changes.
        let keeps_old = spec["update"]["strategy"] == "OnDelete";
        let has_hardware = |vm: &Vm| keeps_old || (json!(vm.cpus) == spec["cpu"] && vm.memory_mib == memory);
        let is_so = members.iter().all(|vm| vm.power == power && has_hardware(vm));
        let count = json!(members.len()) == spec["replicas"];
        if is_so && count {
            Ok(())
        } else {
            Err(format!("its status says Ready of {spec}, and its VMs are {members:?}"))
        }
    }

    /// Deletes the object, and waits until it is gone with all that it had.
    fn end(&self) -> Result<(), String> {
        self.namespace.delete(&self.kind(), &self.name()).map_err(|failure| failure.to_string())?;
        let began = Instant::now();
        loop {
            let complaint = match self.get() {
                Err(failure) if failure.stderr.contains("(NotFound)") => break,
                Err(failure) => failure.to_string(),
                Ok(object) => object["status"].to_string(),
            };
            if began.elapsed() > REACHED {
                return Err(format!("{REACHED:?} after its deletion it is still there: {complaint}"));
            }
            thread::sleep(LOOK);
        }
        let world = World::look(self.sandbox.vcenter())?;
        let is_left = |path: &&String| path.contains(&format!("{}.", self.namespace.name));
        let owner = format!("{}/{}", self.namespace.name, self.name());
        let vms = world.vms.iter().filter(|vm| vm.keys.get("drover.owner") == Some(&owner)).map(Vm::path);
        let left: Vec<_> = world.folders.iter().filter(is_left).cloned().chain(vms).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("it is gone, and has left {left:?}")) }
    }
}

/// What an object says of the spec that it has now. None: nothing yet.
fn word(object: &Value) -> Option<Word> {
    let status = &object["status"];
    let condition = |name: &str| {
        let mut all = status["conditions"].as_array().into_iter().flatten();
        all.find(|condition| condition["type"] == name)
    };
    if status["observedGeneration"] != object["metadata"]["generation"] {
        return None;
    }
    let is = |name: &str| condition(name).is_some_and(|condition| condition["status"] == "True");
    if is("Ready") {
        return Some(Word::Ready);
    }
    // One that isn't ready has to say why.
    condition("Ready")?["message"].as_str().filter(|message| !message.is_empty())?;
    if is("Stalled") {
        return Some(Word::Stalled);
    }
    // One that is paused neither works nor waits for anybody.
    let is_paused = condition("Ready").is_some_and(|condition| condition["reason"] == "Paused");
    (is("Reconciling") || is_paused).then_some(Word::AtWork)
}

/// The last word of a field's path, such as `maxSurge` of `.update.maxSurge`.
fn leaf(field: &str) -> &str {
    let field = field.trim_end_matches("[0]").trim_end_matches("[key]");
    field.rsplit('.').next().unwrap_or(field).split('[').next().unwrap_or(field)
}

/// Whether any of the odd fields is named, or what is above it.
fn is_named(edit: &Edit, text: &str) -> bool {
    // The place in a list and the key of a map are words that any sentence may have.
    let is_name = |part: &&str| !part.is_empty() && *part != "0" && *part != "key";
    let parts = |field: &str| field.split(['.', '[', ']']).filter(is_name).map(ToOwned::to_owned).collect::<Vec<_>>();
    edit.fields.iter().any(|field| {
        field.is_empty() || text.contains(leaf(field)) || parts(field).iter().any(|part| text.contains(part))
    })
}

/// Whether the API server has refused an edit for what it says, with a sentence that names the field.
fn is_refusal(edit: &Edit, stderr: &str) -> Result<(), String> {
    // The last is what an apply says of a value of another type.
    let kinds = ["(Invalid)", "(BadRequest)", "(RequestEntityTooLarge)", "failed to create typed patch object"];
    if edit.fields.is_empty() && !stderr.contains("scale it to 0") {
        return Err(format!("a valid declaration is refused: {stderr}"));
    }
    if !kinds.iter().any(|kind| stderr.contains(kind)) {
        return Err(format!("it is not refused for what it says: {stderr}"));
    }
    if is_named(edit, stderr) { Ok(()) } else { Err(format!("{:?} is not named: {stderr}", edit.fields)) }
}

/// Whether an object that waits for a person because of its spec says which field is wrong.
fn names_the_field(edit: &Edit, object: &Value) -> Result<(), String> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let stalled = conditions.iter().find(|condition| condition["type"] == "Stalled" && condition["status"] == "True");
    let Some(stalled) = stalled else { return Ok(()) };
    let of_spec = ["Invalid", "NotFound", "NotAllowed"];
    let message = stalled["message"].as_str().unwrap_or_default();
    let is_of_spec = of_spec.iter().any(|reason| stalled["reason"] == *reason);
    if !is_of_spec || edit.fields.is_empty() || is_named(edit, message) {
        return Ok(());
    }
    Err(format!("{:?} is not named: {stalled}", edit.fields))
}

/// A spec, short enough to be read.
fn shown(spec: &Value) -> String {
    let text = spec.to_string();
    if text.chars().count() > 600 { format!("{}…", text.chars().take(600).collect::<String>()) } else { text }
}
