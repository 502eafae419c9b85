//! Executors: model calls and host writes in the daemon, everything else in the runner.

use domain::{Amount, Effect};
use kernel::machine::Input;
use kernel::port::{Probe, Refused, Status, Work};

use super::check::{Check, hold};
use super::outside::{Job, Line, finished, killed};
use super::program::{Act, Op};
use super::reference::{first_half, glance, second_half};
use super::world::{Chore, Said, World};

impl World {
    /// Takes an output of a machine to whom it is for.
    pub(super) fn ask_executor(&mut self, p: usize, said: Said) -> Check {
        let generation = self.processes[p].generation;
        let (Said::Start(work) | Said::Status(work) | Said::Probe(work) | Said::Kill(work)) = &said;
        if !matches!(work.effect, Effect::ModelCall | Effect::IdempotentWrite) {
            self.processes[p].said.push_back((generation, said));
            return Ok(());
        }
        let place = self.processes[p]
            .tasks
            .iter()
            .position(|job| job.work.step == work.step && job.work.attempt == work.attempt);
        let step = work.step;
        match (&said, place) {
            (Said::Start(work), _) => {
                let job = self.begin(p, generation, work)?;
                self.processes[p].tasks.push(job);
            }
            (Said::Status(_), Some(place)) => {
                self.processes[p].tasks[place].to = (p, generation);
                self.tell((p, generation), Input::Status(step, Status::Running));
            }
            (Said::Status(_), None) => self.tell((p, generation), Input::Status(step, Status::Unknown)),
            (Said::Kill(work), place) => {
                if let Some(place) = place {
                    self.processes[p].tasks.remove(place);
                    self.tell((p, generation), Input::Finished(step, work.attempt, killed()));
                }
                self.tell((p, generation), Input::Killed(step));
            }
            (Said::Probe(work), _) => return Err(format!("step {} cannot be probed", work.step)),
        }
        Ok(())
    }

    fn begin(&mut self, p: usize, generation: u64, work: &Work) -> Check<Job> {
        self.checker.may_start(work, &self.outside)?;
        let (index, op) = self.program.op_of(&work.tool).ok_or("an unknown tool starts")?;
        let (work, fails) = (work.clone(), op.fails);
        Ok(Job { work, index, fails, stage: 0, to: (p, generation), spooled: None })
    }

    /// Puts an answer into a daemon's inbox; a dead daemon has none.
    pub(super) fn tell(&mut self, to: (usize, u64), input: Input) {
        let process = &mut self.processes[to.0];
        if !process.dead {
            process.inbox.push((to.1, input));
        }
    }

    /// The runner hears the next thing that a daemon said.
    pub(super) fn hear(&mut self, p: usize) -> Check {
        let Some((generation, said)) = self.processes[p].said.pop_front() else { return Ok(()) };
        let to = (p, generation);
        match said {
            Said::Start(work) => self.runner_start(to, &work),
            Said::Status(work) => {
                self.runner_status(to, &work);
                Ok(())
            }
            Said::Probe(work) => {
                self.runner_probe(to, &work);
                Ok(())
            }
            Said::Kill(work) => {
                self.runner_kill(to, &work);
                Ok(())
            }
        }
    }

    fn runner_start(&mut self, to: (usize, u64), work: &Work) -> Check {
        if !self.outside.admits(work.fence) {
            self.count("late start refused by fence");
            let refused = Refused { code: "runner.fenced".into(), hint: "another daemon has the run".into() };
            self.tell(to, Input::Refused(work.step, work.attempt, refused));
            return Ok(());
        }
        if let Some(finished) = self.outside.spooled(work.step, work.attempt) {
            self.tell(to, Input::Finished(work.step, work.attempt, finished));
            return Ok(());
        }
        let again = self.outside.jobs.iter().any(|job| job.work.step == work.step);
        hold!(!again || work.effect == Effect::Read, "step {} runs twice at once", work.step);
        let job = self.begin(to.0, to.1, work)?;
        self.outside.jobs.push(job);
        Ok(())
    }

    fn runner_status(&mut self, to: (usize, u64), work: &Work) {
        if !self.outside.admits(work.fence) {
            return;
        }
        let (step, attempt) = (work.step, work.attempt);
        let same = |job: &&mut Job| job.work.step == step && job.work.attempt == attempt;
        let status = match self.outside.spooled(step, attempt) {
            Some(finished) => {
                self.outside.jobs.retain(|job| job.work.step != step);
                self.count("spooled result taken");
                Status::Spooled(finished)
            }
            None => match self.outside.jobs.iter_mut().find(same) {
                Some(job) => {
                    job.to = to;
                    self.count("running step taken over");
                    Status::Running
                }
                None => {
                    // A runner clears what it finds before it says that nothing runs.
                    self.outside.orphans.retain(|job| job.work.step != step);
                    Status::Unknown
                }
            },
        };
        self.tell(to, Input::Status(step, status));
    }

    fn runner_probe(&mut self, to: (usize, u64), work: &Work) {
        if !self.outside.admits(work.fence) {
            return;
        }
        let Some((index, op)) = self.program.op_of(&work.tool) else { return };
        let done = self.outside.times_sent(work.step) > 0;
        let probe = match (op.probes, done) {
            (false, _) => Probe::Unknown,
            (true, false) => Probe::NotDone,
            (true, true) => Probe::Done(finished(false, op.reserve(), format!("sent {index}"))),
        };
        self.count(match probe {
            Probe::Unknown => "probe unknown",
            Probe::NotDone => "probe not done",
            Probe::Done(_) => "probe done",
        });
        self.tell(to, Input::Probed(work.step, probe));
    }

    fn runner_kill(&mut self, to: (usize, u64), work: &Work) {
        let step = work.step;
        if self.outside.admits(work.fence) {
            self.outside.orphans.retain(|job| job.work.step != step);
            if let Some(place) = self.outside.jobs.iter().position(|job| job.work.step == step) {
                let job = self.outside.jobs.remove(place);
                let answer = job.spooled.unwrap_or_else(killed);
                self.outside.keep(step, job.work.attempt, answer.clone());
                self.tell(to, Input::Finished(step, job.work.attempt, answer));
            }
        }
        self.tell(to, Input::Killed(step));
    }

    /// Kills the runner. What it started dies with it, or lives on for a while.
    pub fn crash_runner(&mut self) {
        self.note(|| "the runner crashes".into());
        self.count("runner crash");
        for job in std::mem::take(&mut self.outside.jobs) {
            if job.spooled.is_some() {
                // Its result is on disk, and the daemon that lost the connection asks again.
                self.tell(job.to, Input::Lost(job.work.step, job.work.attempt));
                continue;
            }
            self.tell(job.to, Input::Lost(job.work.step, job.work.attempt));
            if job.work.effect == Effect::WorkspaceWrite && self.dice.chance(40) {
                self.outside.orphans.push(job);
            }
        }
    }

    /// One more stage of a job of the runner.
    pub(super) fn progress_job(&mut self, place: usize) -> Check {
        let mut job = self.outside.jobs[place].clone();
        if let Some(finished) = job.spooled {
            self.outside.jobs.remove(place);
            self.tell(job.to, Input::Finished(job.work.step, job.work.attempt, finished));
            return Ok(());
        }
        if let Some(payload) = self.stage(&mut job)? {
            let finished = finished(job.fails, self.spent(&job), payload);
            self.outside.keep(job.work.step, job.work.attempt, finished.clone());
            job.spooled = Some(finished);
        }
        self.outside.jobs[place] = job;
        Ok(())
    }

    /// One more stage of a process that outlived its runner: nobody hears its end.
    pub(super) fn progress_orphan(&mut self, place: usize) -> Check {
        let mut job = self.outside.orphans[place].clone();
        if self.stage(&mut job)?.is_some() {
            self.outside.orphans.remove(place);
        } else {
            self.outside.orphans[place] = job;
        }
        Ok(())
    }

    /// One more stage of a task in a daemon.
    pub(super) fn progress_task(&mut self, p: usize, place: usize, refuse: bool) -> Check {
        let mut job = self.processes[p].tasks[place].clone();
        let (step, attempt) = (job.work.step, job.work.attempt);
        if refuse && job.stage == 0 {
            self.processes[p].tasks.remove(place);
            self.count("refused");
            let refused = Refused { code: "model.key_missing".into(), hint: "hand the key over".into() };
            self.tell(job.to, Input::Refused(step, attempt, refused));
            return Ok(());
        }
        if let Some(payload) = self.stage(&mut job)? {
            self.processes[p].tasks.remove(place);
            let finished = finished(job.fails, self.spent(&job), payload);
            self.tell(job.to, Input::Finished(step, attempt, finished));
        } else {
            self.processes[p].tasks[place] = job;
        }
        Ok(())
    }

    fn spent(&self, job: &Job) -> Amount {
        let op = self.program.op(job.index);
        let most = op.map(Op::reserve).unwrap_or_default();
        Amount { nanodollars: cost_of(job, most), ..most }
    }

    /// Does the next part of a job; its payload when it is through.
    fn stage(&mut self, job: &mut Job) -> Check<Option<String>> {
        let Some(op) = self.program.op(job.index).copied() else { return Err("an unknown tool runs".into()) };
        let (step, attempt, index) = (job.work.step, job.work.attempt, job.index);
        job.stage += 1;
        self.note(|| format!("{step}#{attempt} op{index} reaches stage {}", job.stage));
        let outside = &mut self.outside;
        let first = job.stage == 1;
        Ok(match op.act {
            Act::Model if first => {
                outside.billed.push(Line { step, attempt, cost: cost_of(job, op.reserve()) });
                None
            }
            Act::Model => Some(format!("answer {index} to {}", String::from_utf8_lossy(&job.work.request))),
            Act::Read => Some(format!("saw {}", glance(&outside.workspace))),
            Act::Write | Act::Verdict if first => {
                outside.workspace.push_str(&first_half(index));
                None
            }
            Act::Write | Act::Verdict if job.stage == 2 && !op.fails => {
                outside.workspace.push_str(&second_half(index));
                None
            }
            Act::Write | Act::Verdict => Some(format!("wrote {index}")),
            Act::Put | Act::Commit if first => {
                let words = match op.act {
                    Act::Commit => format!("commit {}", glance(&outside.workspace)),
                    _ => format!("put {index}"),
                };
                outside.keys.entry(job.work.key).or_insert((step, words));
                None
            }
            Act::Put | Act::Commit => outside.keys.get(&job.work.key).map(|(_, words)| words.clone()),
            Act::Send if first && !op.fails => {
                self.checker.may_send(step, outside)?;
                outside.sent.push(Line { step, attempt, cost: 0 });
                None
            }
            Act::Send => Some(format!("sent {index}")),
            Act::Timer(_) => return Err("a timer is executed".into()),
        })
    }

    /// One more part of what a daemon does to the workspace.
    pub(super) fn progress_chore(&mut self, p: usize, fail: bool) -> Check {
        let Some((generation, fence, chore)) = self.processes[p].chores.pop_front() else { return Ok(()) };
        let to = (p, generation);
        if fail {
            let refused = Refused { code: "store.full".into(), hint: "make room on the disk".into() };
            self.count("workspace failure");
            self.tell(to, Input::WorkspaceFailed(refused));
            return Ok(());
        }
        match chore {
            Chore::Snapshot => {
                let name = self.outside.snapshot();
                self.tell(to, Input::Snapshotted(name));
            }
            // A daemon that lost the run must not touch its workspace.
            Chore::Restore(..) if fence < self.outside.fence => self.count("late roll-back refused by fence"),
            Chore::Restore(step, snapshot, false) => {
                hold!(!self.outside.is_writing(), "step {step} is rolled back while something writes");
                self.outside.workspace = "half".into();
                self.outside.half_restored = true;
                self.processes[p].chores.push_front((
                    generation,
                    fence,
                    Chore::Restore(step, snapshot, true),
                ));
            }
            Chore::Restore(step, snapshot, true) => {
                hold!(!self.outside.is_writing(), "step {step} is rolled back while something writes");
                let content = self.outside.snapshot_content(&snapshot).cloned();
                self.outside.workspace = content.ok_or("an unknown snapshot is restored")?;
                self.outside.half_restored = false;
                self.tell(to, Input::Restored(step));
            }
        }
        Ok(())
    }
}

const fn cost_of(job: &Job, most: Amount) -> u64 {
    // Anything up to the reservation, the same for the same step.
    if most.nanodollars == 0 { 0 } else { 1 + (job.work.step.0 * 337) % most.nanodollars }
}
