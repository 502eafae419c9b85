//! The live stream: nothing on record is lost, whatever the client does.

use crate::house::{DELTAS, House, serve};
use crate::http::Stream;

/// Until `count` streams are subscribed, so that what is sent now is seen.
async fn until_heard(house: &House, count: usize) {
    while house.listeners() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stream_goes_on_from_its_cursor() {
    let served = serve();
    for _ in 0..250 {
        served.house.append("run_a");
    }
    let mut stream = Stream::open(&served.socket, "?after=3", "").await;
    assert_eq!(stream.ids(247).await, (4..=250).collect::<Vec<u64>>());
    served.house.append("run_a");
    assert_eq!(stream.ids(1).await, [251]);
    // After a reconnect the header counts, as the query is still that of the first request.
    let mut again = Stream::open(&served.socket, "?after=3", "last-event-id: 249\r\n").await;
    assert_eq!(again.ids(2).await, [250, 251]);
}

#[tokio::test]
async fn a_stream_without_a_cursor_starts_now() {
    let served = serve();
    served.house.append("run_a");
    let mut stream = Stream::open(&served.socket, "", "").await;
    until_heard(&served.house, 1).await;
    served.house.append("run_a");
    assert_eq!(stream.ids(1).await, [2]);
}

#[tokio::test]
async fn a_stream_of_one_run_leaves_the_others_out() {
    let served = serve();
    for run in ["run_a", "run_b", "run_b", "run_a"] {
        served.house.append(run);
    }
    let mut stream = Stream::open(&served.socket, "?after=0&run=a", "").await;
    assert_eq!(stream.ids(2).await, [1, 4]);
    served.house.delta("run_b", "not yours");
    served.house.delta("run_a", "yours");
    assert_eq!(stream.next().await.unwrap().data["text"], "yours");
}

#[tokio::test]
async fn deltas_come_before_the_events_that_follow_them() {
    let served = serve();
    let mut stream = Stream::open(&served.socket, "?after=0", "").await;
    until_heard(&served.house, 1).await;
    served.house.delta("run_a", "one");
    served.house.delta("run_a", "two");
    served.house.append("run_a");
    let mut names = Vec::new();
    for _ in 0..3 {
        names.push(stream.next().await.unwrap().event);
    }
    assert_eq!(names, ["delta", "delta", "event"]);
}

#[tokio::test]
async fn a_slow_client_loses_deltas_and_is_told_but_no_event() {
    let served = serve();
    let mut stream = Stream::open(&served.socket, "?after=0", "").await;
    until_heard(&served.house, 1).await;
    // The single-threaded runtime lets the server run only between these lines.
    for _ in 0..DELTAS + 10 {
        served.house.delta("run_a", "x");
    }
    for _ in 0..300 {
        served.house.append("run_a");
    }
    let first = stream.next().await.unwrap();
    assert_eq!((first.event.as_str(), &first.data["kind"]), ("delta", &"lagged".into()));
    assert_eq!(first.data["text"], "10");
    assert_eq!(stream.ids(300).await, (1..=300).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_shutdown_ends_the_streams() {
    let served = serve();
    let mut stream = Stream::open(&served.socket, "?after=0", "").await;
    until_heard(&served.house, 1).await;
    served.stop.send(()).unwrap();
    assert_eq!(stream.next().await, None);
    served.serving.await.unwrap().unwrap();
}
