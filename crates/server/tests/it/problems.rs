//! Refusals: every one is a problem document that says how to mend it.

use crate::house::serve;
use crate::http::{HELLO, ask};

/// Every route, so that none is forgotten by the handshake.
const ROUTES: [&str; 44] = [
    "GET /api/v1/models",
    "POST /api/v1/models",
    "POST /api/v1/missions",
    "GET /api/v1/runs",
    "GET /api/v1/runs/run_a",
    "GET /api/v1/runs/run_a/events",
    "GET /api/v1/runs/run_a/diff",
    "POST /api/v1/runs/run_a/fork",
    "POST /api/v1/runs/run_a/pause",
    "POST /api/v1/runs/run_a/stop",
    "POST /api/v1/runs/run_a/cancel",
    "POST /api/v1/runs/run_a/resume",
    "POST /api/v1/runs/run_a/undo",
    "POST /api/v1/runs/run_a/forget",
    "POST /api/v1/runs/run_a/say",
    "GET /api/v1/costs",
    "GET /api/v1/search?text=a",
    "GET /api/v1/gates",
    "GET /api/v1/gates/g",
    "POST /api/v1/gates/g/answer",
    "GET /api/v1/policy",
    "POST /api/v1/policy/explain",
    "POST /api/v1/policy/why",
    "GET /api/v1/artifacts/beef",
    "GET /api/v1/leases",
    "POST /api/v1/leases",
    "GET /api/v1/leases/l",
    "POST /api/v1/leases/l/revoke",
    "GET /api/v1/roles",
    "GET /api/v1/acts",
    "GET /api/v1/halt",
    "POST /api/v1/halt",
    "POST /api/v1/halt/lift",
    "GET /api/v1/runs/run_a/reads",
    "GET /api/v1/runs/run_a/proposals",
    "GET /api/v1/proposals",
    "GET /api/v1/reports/gates",
    "POST /api/v1/audit/changed",
    "POST /api/v1/audit/read",
    "POST /api/v1/audit/verify",
    "POST /api/v1/shutdown",
    "GET /api/v1/events",
    "GET /",
    "PUT /api/v1/runs",
];

#[tokio::test]
async fn another_version_is_refused_everywhere() {
    let served = serve();
    for route in ROUTES {
        for headers in ["", "regie-api: 2\r\n", "regie-api: 0\r\n", "regie-api: x\r\n"] {
            let answer = ask(&served.socket, route, headers, "{}").await;
            assert_eq!(answer.status, 426, "{route} with {headers:?}");
            let problem = answer.problem();
            assert_eq!(problem.code, "api.version");
            assert!(problem.hint.is_some());
        }
    }
    let answer = ask(&served.socket, "GET /api/v1/runs", "regie-api: 7\r\n", "").await;
    assert_eq!(answer.problem().detail, "the daemon speaks API 1 and the client API 7");
}

#[tokio::test]
async fn the_version_is_told_to_everyone() {
    let served = serve();
    let answer = ask(&served.socket, "GET /api/v1/version", "", "").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("regie-api: 1"), "{}", answer.head);
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let served = serve();
    let cases = [
        ("GET /nowhere", 404, "route.not_found"),
        ("GET /api/v1/nowhere", 404, "route.not_found"),
        ("PUT /api/v1/runs", 405, "route.method"),
        ("GET /api/v1/runs/run_z", 404, "thing.not_found"),
        ("GET /api/v1/events?run=run_z", 404, "thing.not_found"),
        ("POST /api/v1/runs/run_a/stop", 409, "run.ended"),
        ("GET /api/v1/runs?open=perhaps", 400, "request.query"),
        ("GET /api/v1/runs/run_a/events?after=-1", 400, "request.query"),
        ("GET /api/v1/costs?by=colour", 400, "request.query"),
        ("GET /api/v1/search", 400, "request.query"),
        ("GET /api/v1/search?text=zzz", 404, "thing.not_found"),
        ("GET /api/v1/runs/%FF", 400, "request.path"),
    ];
    for (line, status, code) in cases {
        let answer = ask(&served.socket, line, HELLO, "").await;
        assert_eq!((answer.status, answer.problem().code.as_str()), (status, code), "{line}");
    }
    let answer = ask(&served.socket, "GET /api/v1/events", "regie-api: 1\r\nlast-event-id: x\r\n", "").await;
    assert_eq!(answer.problem().code, "request.cursor");
}

#[tokio::test]
async fn a_wrong_body_is_located_and_not_repeated() {
    let served = serve();
    let line = "POST /api/v1/missions";
    let cases = [
        ("{", 400, "the request body is not valid JSON at line 1, column 1"),
        ("{}", 422, "the request body is wrong: missing field `goal` at line 1 column 2"),
        (
            r#"{"goal":"g","project":"/p","vendor":{"api_key":["sk-secret"]}}"#,
            422,
            "the request body has a value of the wrong type at line 1, column 47",
        ),
        (
            r#"{"goal":"g","project":"/p","vendor":"sk-secret"}"#,
            422,
            "the request body has a value of the wrong type at line 1, column 47",
        ),
    ];
    for (body, status, detail) in cases {
        let answer = ask(&served.socket, line, HELLO, body).await;
        assert!(!answer.body.contains("sk-secret"), "{}", answer.body);
        assert_eq!((answer.status, answer.problem().detail.as_str()), (status, detail), "{body}");
    }
    assert!(served.house.started.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_long_body_is_refused() {
    let served = serve();
    let body = "x".repeat((1 << 20) + 1);
    let answer = ask(&served.socket, "POST /api/v1/missions", HELLO, &body).await;
    assert_eq!((answer.status, answer.problem().code.as_str()), (413, "request.too_large"));
}

#[tokio::test]
async fn a_mission_starts() {
    let served = serve();
    let body = r#"{"goal":"g","project":"/p","done":["true"]}"#;
    let answer = ask(&served.socket, "POST /api/v1/missions", HELLO, body).await;
    assert_eq!(answer.status, 201);
    let started: control::api::Started = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(started.run, "run_a");
    assert_eq!(served.house.started.lock().unwrap()[0].done, ["true"]);
}

#[tokio::test]
async fn an_artifact_is_never_rendered() {
    let served = serve();
    let answer = ask(&served.socket, "GET /api/v1/artifacts/beef", HELLO, "").await;
    assert!(answer.head.contains("content-type: application/octet-stream"));
    assert!(answer.head.contains("x-content-type-options: nosniff"));
    assert_eq!(answer.body, "<script>");
}

#[tokio::test]
async fn what_is_said_looked_for_and_added_up_arrives() {
    let served = serve();
    let said = "POST /api/v1/runs/run_a/say";
    assert_eq!(ask(&served.socket, said, HELLO, r#"{"text":"a"}"#).await.status, 204);
    assert_eq!(ask(&served.socket, said, HELLO, r#"{"text":"a","now":true}"#).await.status, 404);
    assert_eq!(ask(&served.socket, said, HELLO, "{}").await.problem().code, "request.body");
    assert_eq!(ask(&served.socket, "GET /api/v1/search?text=a+b&limit=7", HELLO, "").await.status, 200);
    assert_eq!(ask(&served.socket, "GET /api/v1/policy?project=%2Fa+b", HELLO, "").await.status, 200);
    let explain = "POST /api/v1/policy/explain";
    assert_eq!(ask(&served.socket, explain, HELLO, r#"{"action":"shell x"}"#).await.status, 404);
    assert_eq!(ask(&served.socket, explain, HELLO, "{}").await.problem().code, "request.body");
    let why = "POST /api/v1/policy/why";
    assert_eq!(ask(&served.socket, why, HELLO, r#"{"run":"last","of":"3"}"#).await.status, 404);
    let costs = ask(&served.socket, "GET /api/v1/costs?by=day", HELLO, "").await;
    let costs: control::api::Costs = serde_json::from_str(&costs.body).unwrap();
    assert_eq!((costs.by, costs.total.nanodollars), (control::api::By::Day, None));
}
