//! Snapshots and roll-backs: for one run, in the order in which they were asked for.

use std::sync::{Arc, mpsc};

use control::workspaces::StoreWorkspaces;
use domain::{RunId, StepNo};
use kernel::Input;
use kernel::port::{Inbox, Workspaces as _};

use crate::world::World;

struct Post(mpsc::Sender<Input>);

impl Inbox for Post {
    fn send(&self, input: Input) {
        let _ = self.0.send(input);
    }
}

#[test]
fn what_is_asked_for_one_run_is_done_in_that_order() {
    let world = World::new();
    let (run, _) = world.asked(world.note());
    let file = world.workspace(&run).join("sum.sh");
    let run: RunId = run.parse().unwrap();
    let workspaces = StoreWorkspaces::new(world.layout(), world.daemon().journal.clone());
    let (sender, answers) = mpsc::channel();
    let inbox: Arc<dyn Inbox> = Arc::new(Post(sender));
    world.block(async {
        let next = {
            let answers = answers;
            move || answers.recv().unwrap()
        };
        workspaces.snapshot(run, Arc::clone(&inbox));
        let Input::Snapshotted(first) = next() else { panic!("no snapshot") };
        std::fs::write(&file, "changed\n").unwrap();
        workspaces.snapshot(run, Arc::clone(&inbox));
        let Input::Snapshotted(second) = next() else { panic!("no snapshot") };
        assert_ne!(first, second);
        for _ in 0..10 {
            for (step, snapshot) in [(1, &first), (2, &second)] {
                workspaces.restore(run, StepNo(step), snapshot, Arc::clone(&inbox));
                workspaces.snapshot(run, Arc::clone(&inbox));
            }
        }
        for _ in 0..10 {
            for (step, snapshot) in [(1, &first), (2, &second)] {
                assert_eq!(next(), Input::Restored(StepNo(step)));
                assert_eq!(next(), Input::Snapshotted(snapshot.clone()));
            }
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed\n");
        for nonsense in ["nonsense", &"d".repeat(40)] {
            workspaces.restore(run, StepNo(3), nonsense, Arc::clone(&inbox));
            assert!(matches!(next(), Input::WorkspaceFailed(refused) if refused.code == "workspace.failed"));
        }
        workspaces.snapshot(RunId::from_bytes([1; 16]), Arc::clone(&inbox));
        assert!(matches!(next(), Input::WorkspaceFailed(_)), "a run that does not exist");
    });
}
