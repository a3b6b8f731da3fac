//! Sessions that expire lose nothing, and cost one login.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use vim25::{
    Credentials, ManagedObject, Scope, Settings, Watch,
    faults::{InvalidLogin, NotAuthenticated},
    methods::{CurrentTime, SessionIsActive},
    refs::ServiceInstanceRef,
};

use super::{
    Site, client, client_with,
    mirror::{Mirror, fresh, machine_properties},
    object, path, sandbox, settings,
};

pub(super) fn logins(site: &Site) -> u64 {
    site.vcenter.calls("Login", "vim25")
}

pub(super) fn expire(site: &Site) {
    site.vcenter.control("DELETE", "/sessions", &Value::Null).unwrap();
}

fn current_time() -> CurrentTime {
    CurrentTime { this: ServiceInstanceRef::new("ServiceInstance") }
}

#[tokio::test]
async fn fifty_calls_that_meet_an_expired_session_share_one_new_login() {
    let site = Site::new().await;
    assert_eq!(logins(&site), 1);
    expire(&site);
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let client = site.client.clone();
        calls.spawn(async move { client.call(&current_time()).await });
    }
    for outcome in calls.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(logins(&site), 2);
}

#[tokio::test]
async fn a_session_that_expires_during_a_long_poll_misses_no_change() {
    let mut site = Site::new().await;
    let [stays, changes, goes] = ["stays", "changes", "goes"].map(|name| site.machine(name));
    let (stays, changes, goes) = (stays.await, changes.await, goes.await);
    let scope = Scope::Container { root: object(&site.folder), recursive: true };
    site.collector.watch(Watch { scope, properties: machine_properties() });
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "the watch is synced", |mirror| mirror.synced.len() == 1).await;
    assert_eq!(mirror.objects, fresh(&site).await);
    site.settle().await;
    mirror.news.clear();

    // While the client is kept from logging in again, the world moves on.
    site.vcenter.rule(&json!({"method": "Login", "client": "vim25", "count": 1, "latency": "3s"}));
    let before = logins(&site);
    expire(&site);
    site.vcenter.govc(&["vm.power", "-on", &path("changes")]).unwrap();
    site.vcenter.govc(&["vm.destroy", &path("goes")]).unwrap();
    site.vcenter
        .govc(&["vm.clone", "-vm", "vm-operator-template", "-folder", super::FOLDER, "-on=false", "comes"])
        .unwrap();

    let power = "runtime.powerState";
    mirror
        .until(&mut site.updates, "all three changes are told", |mirror| {
            mirror.text(&changes, power).as_deref() == Some("poweredOn")
                && !mirror.objects.contains_key(goes.reference())
                && mirror.objects.values().any(|machine| format!("{machine:?}").contains("\"comes\""))
        })
        .await;
    assert_eq!(mirror.objects, fresh(&site).await);
    assert_eq!(mirror.news.get(stays.reference()), None, "what didn't change isn't told again");
    assert_eq!(logins(&site), before + 1);

    // And the stream goes on as before.
    site.vcenter.govc(&["vm.power", "-off", "-force", &path("changes")]).unwrap();
    mirror
        .until(&mut site.updates, "the power-off", |mirror| {
            mirror.text(&changes, power).as_deref() == Some("poweredOff")
        })
        .await;
    assert!(mirror.downs.is_empty(), "a new session is nobody's concern: {:?}", mirror.downs);
}

#[tokio::test]
async fn a_session_that_expires_during_a_clone_loses_neither_the_machine_nor_its_task() {
    let site = Site::new().await;
    let before = logins(&site);
    let task = site.submit_clone("survivor").await.unwrap();
    let (info, ()) = tokio::join!(site.follow(&task), async { expire(&site) });
    assert_eq!(info.unwrap().task, task);
    assert!(site.vcenter.machines().contains(&path("survivor")));
    assert_eq!(site.vcenter.calls("CloneVM_Task", "vim25"), 1);
    assert_eq!(logins(&site), before + 1);
}

#[tokio::test]
async fn a_wrong_password_is_tried_once_until_it_is_replaced() {
    let vcenter = sandbox().own_vcenter();
    let client = client_with(&vcenter, "wrong", Settings { login_pause: Duration::ZERO, ..settings(&vcenter) });
    for _ in 0..5 {
        let error = client.call(&current_time()).await.unwrap_err();
        assert!(error.fault().unwrap().is::<InvalidLogin>(), "{error:?}");
        assert!(error.to_string().contains("administrator@vsphere.local"), "{error}");
    }
    assert_eq!(vcenter.calls("Login", "vim25"), 1);
    client.set_credentials(Credentials::password(&vcenter.user, &vcenter.password), "2");
    client.call(&current_time()).await.unwrap();
    assert_eq!(vcenter.calls("Login", "vim25"), 2);
}

#[tokio::test]
async fn a_stream_whose_login_is_refused_waits_for_new_credentials_and_goes_on() {
    let mut site = Site::with(Settings { login_pause: Duration::from_secs(3), ..Settings::default() }).await;
    site.vcenter.control("PUT", "/password", &json!({"password": "new"})).unwrap();
    let scope = Scope::Object(object(&site.template));
    site.collector.watch(Watch { scope, properties: machine_properties() });
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "synced", |mirror| mirror.synced.len() == 1).await;
    let before = logins(&site);
    expire(&site);
    mirror.until(&mut site.updates, "the stream is down", |mirror| mirror.downs.len() == 1).await;
    assert!(mirror.downs[0].fault().unwrap().is::<InvalidLogin>(), "{:?}", mirror.downs);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(logins(&site), before + 1, "a refused password isn't tried again");
    site.client.set_credentials(Credentials::password(&site.vcenter.user, "new"), "2");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(logins(&site), before + 1, "nor another within the pause");
    mirror.until(&mut site.updates, "the stream is up", |mirror| mirror.ups == 1).await;
}

#[tokio::test]
async fn a_bearer_token_logs_in_too() {
    let vcenter = sandbox().own_vcenter();
    let token = r#"<saml2:Assertion xmlns:saml2="urn:oasis:names:tc:SAML:2.0:assertion"><saml2:Subject>
        <saml2:NameID>jane@example.com</saml2:NameID></saml2:Subject></saml2:Assertion>"#;
    let credentials = Credentials::Token(vim25::Secret::new(token));
    let client = vim25::Client::new(vcenter.host.parse().unwrap(), credentials, settings(&vcenter)).unwrap();
    assert_eq!(client.session().await.unwrap().user.user_name, "jane@example.com");
}

#[tokio::test]
async fn a_logout_ends_the_session_in_vcenter() {
    let site = Site::new().await;
    let session = site.client.session().await.unwrap();
    let (key, name) = (session.user.key.clone(), session.user.user_name.clone());
    let this = session.content.session_manager.clone().unwrap();
    let active = SessionIsActive { this, session_id: key, user_name: name };
    assert!(site.client.call(&active).await.unwrap());
    site.client.logout().await.unwrap();
    site.client.logout().await.expect("no session is no error");
    let witness = client(&site.vcenter);
    assert!(!witness.call(&active).await.unwrap());
}

#[tokio::test]
async fn a_lasting_refusal_of_every_session_is_an_error_and_no_loop() {
    let site = Site::new().await;
    site.vcenter.rule(&json!({"method": "CurrentTime", "fault": {"type": "NotAuthenticated"}}));
    let error = site.client.call(&current_time()).await.unwrap_err();
    assert!(error.fault().unwrap().is::<NotAuthenticated>(), "{error:?}");
    assert_eq!(site.vcenter.calls("CurrentTime", "vim25"), 2);
}
