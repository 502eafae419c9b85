//! What follows from events and is no part of any run: live output is passed on, spooled results that
//! are on record are dropped, and what served a run that is over is let go.

use std::collections::HashMap;
use std::sync::Arc;

use control::Control;
use domain::{Fact, RunId};
use runner::RunnerExecutor;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

/// Events looked at in one go.
const PAGE: usize = 1024;

/// Starts it; it ends when it is aborted.
pub(super) fn start(control: Arc<Control>, runner: Arc<RunnerExecutor>) -> JoinHandle<()> {
    tokio::spawn(async move {
        tokio::join!(pass_output_on(&control, &runner), follow(&control, &runner));
    })
}

async fn pass_output_on(control: &Control, runner: &RunnerExecutor) {
    let mut progress = runner.progress();
    loop {
        match progress.recv().await {
            Ok(piece) => control.publish(control::api::Delta {
                run: piece.run.to_string(),
                step: piece.step.0,
                kind: "output".into(),
                text: piece.text,
            }),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

async fn follow(control: &Arc<Control>, runner: &RunnerExecutor) {
    let mut bell = control.bell();
    let mut position = *bell.borrow_and_update();
    let mut fences: HashMap<RunId, u64> = HashMap::new();
    loop {
        let Ok(events) = control.recorded_after(position, PAGE).await else { return };
        for event in &events {
            let run = event.header.run;
            match &event.header.fact {
                Fact::Claimed { fence, .. } => {
                    fences.insert(run, *fence);
                }
                Fact::StepCompleted { step, .. } => {
                    if let Some(fence) = fences.get(&run) {
                        runner.forget(run, *step, *fence);
                    }
                }
                Fact::Ended { .. } => {
                    fences.remove(&run);
                    runner.close(run);
                    control.release(run);
                    control.lease_end(run).await;
                    super::keeping::clear_spool(control, run);
                }
                Fact::Parked { .. } => runner.close(run),
                _ => {}
            }
        }
        match events.last() {
            Some(last) => position = last.position,
            None if bell.changed().await.is_err() => return,
            None => {}
        }
    }
}
