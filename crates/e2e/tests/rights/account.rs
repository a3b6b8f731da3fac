//! What the operator's service account may do.

use std::{collections::BTreeSet, env, fs, path::Path};

use drover_e2e::Account;
use serde_json::{Value, json};

/// A right: an API group, a resource, a verb, and whether it is meant in the operator's own namespace only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub group: String,
    pub resource: String,
    pub verb: String,
    pub is_own: bool,
}

/// What a service account may do, and less or more of it.
pub(crate) trait Rights {
    /// Asserts that it may do in a namespace what a file beside this one lists, and nothing else. With `UPDATE_RIGHTS` set, the file is
    /// written.
    fn assert_can_do(&self, namespace: &str, list: &str);

    /// The rights that all roles bound to it grant, and its bindings.
    fn granted(&self) -> (BTreeSet<Right>, Vec<(String, Vec<String>)>);

    /// Takes away all that it may do.
    fn strip(&self, bindings: &[(String, Vec<String>)]);

    /// Grants these rights, and no others.
    fn grant(&self, rights: &BTreeSet<Right>);
}

impl Rights for Account<'_> {
    #[track_caller]
    fn assert_can_do(&self, namespace: &str, list: &str) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rights").join(list);
        let can_do = can_do(self, namespace);
        if env::var_os("UPDATE_RIGHTS").is_some() {
            fs::write(&file, &can_do).unwrap();
        }
        let listed = fs::read_to_string(&file).unwrap();
        assert_eq!(can_do, listed, "{list} is out of date: UPDATE_RIGHTS=1 has this test write it");
    }

    fn granted(&self) -> (BTreeSet<Right>, Vec<(String, Vec<String>)>) {
        let (mut rights, mut bindings) = (BTreeSet::new(), Vec::new());
        for (kind, roles, own) in
            [("clusterrolebindings", "clusterroles", None), ("rolebindings", "roles", Some(self.namespace.as_str()))]
        {
            let scope: Vec<_> = own.map(|namespace| vec!["-n", namespace]).unwrap_or_default();
            for binding in list(self, kind, &scope) {
                let is_me = |subject: &Value| {
                    subject["kind"] == "ServiceAccount"
                        && subject["name"] == self.name
                        && subject["namespace"] == self.namespace
                };
                if !binding["subjects"].as_array().into_iter().flatten().any(is_me) {
                    continue;
                }
                let name = binding["metadata"]["name"].as_str().unwrap().to_owned();
                bindings
                    .push((name, [&["delete", kind], &scope[..]].concat().iter().map(ToString::to_string).collect()));
                let role = binding["roleRef"]["name"].as_str().unwrap();
                let role =
                    list(self, roles, &scope).into_iter().find(|found| found["metadata"]["name"] == role).unwrap();
                rights.extend(rights_of(&role, own.is_some()));
            }
        }
        (rights, bindings)
    }

    fn strip(&self, bindings: &[(String, Vec<String>)]) {
        for (name, command) in bindings {
            let words: Vec<_> = command.iter().map(String::as_str).chain([name.as_str()]).collect();
            self.sandbox.kubectl().run(&words).unwrap();
        }
    }

    fn grant(&self, rights: &BTreeSet<Right>) {
        let rules = |is_own: bool| -> Value {
            let rule = |right: &Right| json!({"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]});
            rights.iter().filter(|right| right.is_own == is_own).map(rule).collect()
        };
        let subjects = json!([{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}]);
        let object = |kind: &str, namespace: Option<&str>, more: Value| {
            let mut object = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "ladder", "namespace": namespace},
            });
            object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            object
        };
        let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "ladder"});
        let own = Some(self.namespace.as_str());
        let all = [
            object("ClusterRole", None, json!({"rules": rules(false)})),
            object("ClusterRoleBinding", None, json!({"roleRef": role("ClusterRole"), "subjects": subjects})),
            object("Role", own, json!({"rules": rules(true)})),
            object("RoleBinding", own, json!({"roleRef": role("Role"), "subjects": subjects})),
        ];
        let list = json!({"apiVersion": "v1", "kind": "List", "items": all}).to_string();
        let applied = self.sandbox.kubectl().run_with_input(&["apply", "--server-side", "-f", "-"], &list);
        applied.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// What it may do, as `kubectl auth can-i --list` says, line by line in order.
fn can_do(account: &Account<'_>, namespace: &str) -> String {
    let me = format!("--as=system:serviceaccount:{}:{}", account.namespace, account.name);
    let list = account.sandbox.kubectl().run(&["auth", "can-i", "--list", &me, "-n", namespace]).unwrap();
    let mut lines: Vec<_> = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines.join("\n") + "\n"
}

fn list(account: &Account<'_>, kind: &str, scope: &[&str]) -> Vec<Value> {
    let list = account.sandbox.kubectl().run(&[&["get", kind, "-o", "json"], scope].concat()).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// What a role grants, one by one.
fn rights_of(role: &Value, is_own: bool) -> Vec<Right> {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().into_iter().flatten() {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    rights.push(Right { group: group.clone(), resource: resource.clone(), verb, is_own });
                }
            }
        }
    }
    rights
}
