//! Who logs in, and how often.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Barrier, task::JoinSet};
use vim25::{
    Client, Credentials, Error, Result, Settings, Timestamp, faults::InvalidLogin, methods::CurrentTime,
    refs::ServiceInstanceRef,
};

use super::{
    PASSWORD, beneath, client, failure,
    server::{Reply, Server},
    settings, time,
    vcenter::VCenter,
};

const PAUSE: Duration = Duration::from_millis(500);

async fn serve(vcenter: &VCenter) -> Server {
    let vcenter = vcenter.clone();
    Server::start(None, move |request| std::future::ready(vcenter.answer(&request))).await
}

/// What so many callers get who call at once.
async fn at_once(client: &Client, callers: usize) -> Vec<Result<Timestamp>> {
    let mut calls = JoinSet::new();
    for _ in 0..callers {
        let client = client.clone();
        calls.spawn(async move { time(&client).await });
    }
    calls.join_all().await
}

fn assert_refused(error: &Error) {
    assert!(error.fault().is_some_and(vim25::Fault::is::<InvalidLogin>), "{error:?}");
    assert!(error.to_string().contains("as jane"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_callers_who_lose_the_session_log_in_once() {
    let vcenter = VCenter::default();
    let (all_are_here, state) = (Arc::new(Barrier::new(50)), vcenter.clone());
    let server = Server::start(None, move |request| {
        let (all_are_here, state) = (Arc::clone(&all_are_here), state.clone());
        async move {
            if request.cookie.as_ref().is_some_and(|cookie| cookie.contains("session-1")) {
                all_are_here.wait().await;
            }
            state.answer(&request)
        }
    })
    .await;
    let client = client(&server, settings());
    client.session().await.unwrap();
    vcenter.expire();

    for outcome in at_once(&client, 50).await {
        outcome.unwrap();
    }
    assert_eq!(vcenter.logins(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wrong_password_is_tried_once_and_once_more_when_it_is_written_again() {
    let vcenter = VCenter::default().wants("something else");
    let server = serve(&vcenter).await;
    let client = client(&server, Settings { login_pause: Duration::ZERO, ..settings() });
    for outcome in at_once(&client, 20).await {
        assert_refused(&outcome.unwrap_err());
    }
    for _ in 0..5 {
        assert_refused(&failure(&client).await);
        client.set_credentials(Credentials::password("jane", PASSWORD), "1");
    }
    assert_refused(&failure(&client).await);
    assert_eq!(vcenter.logins(), 1, "these are the ones that were refused");

    client.set_credentials(Credentials::password("jane", PASSWORD), "2");
    assert_refused(&failure(&client).await);
    assert_refused(&failure(&client).await);
    assert_eq!(vcenter.logins(), 2, "the same, written again");

    client.set_credentials(Credentials::password("jane", "another wrong one"), "3");
    assert_refused(&failure(&client).await);
    assert_refused(&failure(&client).await);
    assert_eq!(vcenter.logins(), 3);

    client.set_credentials(Credentials::password("jane", "something else"), "4");
    time(&client).await.unwrap();
    assert_eq!(vcenter.logins(), 4);
}

#[tokio::test]
async fn however_often_a_secret_is_written_a_refused_account_is_tried_once_in_each_pause() {
    let vcenter = VCenter::default().wants("something else");
    let server = serve(&vcenter).await;
    let client = client(&server, Settings { login_pause: PAUSE, ..settings() });
    let began = Instant::now();
    let attempts = async {
        for stamp in 0.. {
            client.set_credentials(Credentials::password("jane", format!("wrong {stamp}")), &stamp.to_string());
            assert_refused(&failure(&client).await);
            tokio::time::sleep(PAUSE / 20).await;
        }
    };
    let _ = tokio::time::timeout(PAUSE * 5 / 2, attempts).await;
    let allowed = began.elapsed().as_millis() / PAUSE.as_millis() + 1;
    let tried = vcenter.logins() as u128;
    assert!((2..=allowed).contains(&tried), "{tried} of {allowed}");

    client.set_credentials(Credentials::password("joe", "something else"), "another account");
    time(&client).await.unwrap();
}

#[tokio::test]
async fn a_refused_login_is_tried_again_by_itself_because_the_directory_may_have_been_away() {
    let vcenter = VCenter::default().wants("something else");
    let server = serve(&vcenter).await;
    let client = client(&server, Settings { login_pause: PAUSE, login_retry: 2 * PAUSE, ..settings() });
    let began = Instant::now();
    assert_refused(&failure(&client).await);
    let vcenter = vcenter.wants(PASSWORD);
    assert_refused(&failure(&client).await);
    client.login_allowed().await;
    assert!(began.elapsed() >= 2 * PAUSE, "{:?}", began.elapsed());
    time(&client).await.unwrap();
    assert_eq!(vcenter.logins(), 2);
}

#[tokio::test]
async fn a_closed_client_logs_in_no_more() {
    let vcenter = VCenter::default();
    let server = serve(&vcenter).await;
    let client = client(&server, settings());
    time(&client).await.unwrap();
    let clone = client.clone();
    client.close().await.unwrap();
    let error = failure(&clone).await;
    assert!(matches!(error, Error::Closed { .. }), "{error:?}");
    assert_eq!((vcenter.logins(), vcenter.logouts()), (1, 1));
}

#[tokio::test]
async fn a_login_that_is_under_way_when_its_client_is_closed_is_logged_out() {
    let vcenter = VCenter::default();
    let state = vcenter.clone();
    let server = Server::start(None, move |request| {
        let state = state.clone();
        async move {
            if request.calls("Login") {
                tokio::time::sleep(PAUSE).await;
            }
            state.answer(&request)
        }
    })
    .await;
    let client = client(&server, settings());
    let _ = tokio::time::timeout(PAUSE / 2, time(&client)).await;
    let _ = tokio::time::timeout(PAUSE / 10, client.close()).await;
    assert!(matches!(failure(&client).await, Error::Closed { .. }));
    assert_eq!((vcenter.logins(), vcenter.logouts()), (1, 1));
}

#[tokio::test]
async fn a_call_within_a_session_that_is_over_is_made_in_no_other() {
    let vcenter = VCenter::default();
    let server = serve(&vcenter).await;
    let client = client(&server, settings());
    let session = client.session().await.unwrap();
    let question = CurrentTime { this: ServiceInstanceRef::new("ServiceInstance") };
    client.call_within(&session, &question).await.unwrap();
    vcenter.expire();
    for _ in 0..2 {
        let error = client.call_within(&session, &question).await.unwrap_err();
        assert!(error.is_session_lost(), "{error:?}");
    }
    assert_eq!(vcenter.logins(), 1);
    time(&client).await.unwrap();
    assert_eq!((vcenter.logins(), server.requests()), (2, 8), "the lost session was given up at once");
}

#[tokio::test]
async fn a_password_that_is_changed_meanwhile_is_tried_once() {
    let vcenter = VCenter::default().wants(PASSWORD);
    let server = serve(&vcenter).await;
    let client = client(&server, settings());
    time(&client).await.unwrap();

    let vcenter = vcenter.wants("something else");
    vcenter.expire();
    for outcome in at_once(&client, 10).await {
        assert_refused(&outcome.unwrap_err());
    }
    assert_eq!(vcenter.logins(), 2);
}

#[tokio::test]
async fn a_caller_who_gives_up_does_not_make_the_next_one_try_a_wrong_password_again() {
    let vcenter = VCenter::default().wants("something else");
    let state = vcenter.clone();
    let server = Server::start(None, move |request| {
        let state = state.clone();
        async move {
            let reply = state.answer(&request);
            if request.calls("Login") {
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            reply
        }
    })
    .await;
    let client = client(&server, settings());
    while vcenter.logins() == 0 {
        _ = tokio::time::timeout(Duration::from_millis(100), time(&client)).await;
    }
    assert_refused(&failure(&client).await);
    assert_eq!(vcenter.logins(), 1);
}

#[tokio::test]
async fn credentials_that_are_replaced_before_anybody_waits_for_them_are_not_missed() {
    let vcenter = VCenter::default().wants("something else");
    let server = serve(&vcenter).await;
    let client = client(&server, Settings { login_pause: Duration::ZERO, ..settings() });
    assert_refused(&failure(&client).await);
    let waiting = tokio::time::timeout(Duration::from_millis(50), client.login_allowed());
    waiting.await.expect_err("there are no others yet");

    client.set_credentials(Credentials::password("jane", "something else"), "2");
    client.login_allowed().await;
    time(&client).await.unwrap();
}

#[tokio::test]
async fn those_who_waited_for_a_login_that_failed_share_its_error() {
    let server = Server::start(None, |_| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Reply::new("503 Service Unavailable", "text/plain", &[], "starting")
    })
    .await;
    let client = client(&server, settings());
    for outcome in at_once(&client, 20).await {
        assert!(outcome.unwrap_err().to_string().contains("503"));
    }
    assert_eq!(server.requests(), 1);

    // It may be over by now, so the next one tries again.
    failure(&client).await;
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn calls_one_after_the_other_use_one_connection() {
    let server = serve(&VCenter::default()).await;
    let client = client(&server, settings());
    for _ in 0..10 {
        time(&client).await.unwrap();
    }
    // Beside the calls, there are the first question and the login.
    assert_eq!((server.connections(), server.requests()), (1, 12));
}

#[tokio::test]
async fn another_vcenter_than_the_expected_one_gets_no_credentials() {
    let vcenter = VCenter::default();
    vcenter.become_instance("5f1e-AB");
    let server = serve(&vcenter).await;
    let client = client(&server, settings());
    client.expect_instance(Some("77aa-00".to_owned()));
    let error = failure(&client).await;
    assert!(matches!(beneath(&error), Error::OtherInstance { .. }), "{error:?}");
    assert!(error.to_string().ends_with("is another vCenter than before: its instance UUID is not 77aa-00"), "{error}");
    assert_eq!(vcenter.logins(), 0);
    client.expect_instance(Some("5F1E-ab".to_owned()));
    time(&client).await.unwrap();

    // At the same address there is another one now.
    vcenter.become_instance("77aa-00");
    vcenter.expire();
    let error = failure(&client).await;
    assert!(matches!(beneath(&error), Error::OtherInstance { .. }), "{error:?}");
    assert_eq!(vcenter.logins(), 1);
    client.expect_instance(None);
    time(&client).await.unwrap();
    assert_eq!(vcenter.logins(), 2);
}
