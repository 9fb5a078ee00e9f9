//! Splitting, merging and verifying in parts, on many hosts that don't communicate.
//!
//! The work is planned once, executed in parts by any hosts, and committed once:
//!
//! ```text
//! plan (one host) -> run a part (any host, any number of times) -> commit (one host)
//! ```
//!
//! A [`PartsPlan`] is a small file that all hosts read. [`PartsPlan::run`] executes a part of the
//! plan and returns a [`PartReport`]. A part that was killed can be run again, and running a part
//! twice has the same result as running it once. [`PartsPlan::commit`] needs a report for every
//! part. It fails if a report is missing or belongs to another plan. The result doesn't appear
//! before the commit. Therefore, any scheduler is suitable: a shell, a Slurm array, an indexed
//! Kubernetes job, Ray.
//!
//! A [`PlanFile`] is a plan in a file, with the reports of its parts next to it.
//!
//! All hosts must see the same files under the same paths, or the same objects in stores: a
//! [`Planner`] and [`PartOptions`] with [`Objects`] accept URLs wherever they accept paths. A
//! [`PartStore`] stores the files that the parts of a split write, by default in the folder of the
//! result.
//!
//! ```
//! use std::num::NonZeroUsize;
//!
//! use proto_splitter_parts::{Committed, PartOptions, PartsPlan};
//! use proto_splitter_core::prost::Message;
//! use proto_splitter_core::prost_reflect::{ReflectMessage, prost_types::FileDescriptorProto};
//! use proto_splitter_core::split::{Profile, SizeSplitter, Source, SplitOptions};
//!
//! let folder = tempfile::tempdir()?;
//! let source = folder.path().join("model.pb");
//! let dependency = (0..9).map(|at| at.to_string().repeat(900)).collect();
//! let message = FileDescriptorProto { dependency, ..Default::default() };
//! std::fs::write(&source, message.encode_to_vec())?;
//!
//! let source = Source::open(source, message.descriptor())?;
//! let options = SplitOptions::new().max_chunk_size(1000).profile(Profile::Extended);
//! let prefix = folder.path().join("model");
//! let parts = NonZeroUsize::new(3).unwrap();
//! let plan = PartsPlan::split(&SizeSplitter, &source, &prefix, &options.force(true), parts)?;
//!
//! // Each part may run on another host, in any order.
//! let run = |part| plan.run(part, &PartOptions::new());
//! let reports = (0..plan.parts()).map(run).collect::<Result<Vec<_>, _>>()?;
//! let Committed::Split(written) = plan.commit(&reports, &PartOptions::new())? else { panic!() };
//! assert_eq!(written.files.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(feature = "serde")]
mod as_text;
mod chunked_input;
mod commit_report;
mod committed;
mod finished_part;
mod format;
mod identity;
mod merging;
mod message_type;
mod object_folder;
mod objects;
mod options;
mod plan;
mod plan_file;
mod plan_report;
pub mod proto;
mod report;
mod rereading;
mod shard;
mod shares;
mod split_message;
mod splitting;
mod store;
mod uploading;
mod verifying;

pub use commit_report::CommitReport;
pub use committed::Committed;
pub use finished_part::FinishedPart;
#[doc(hidden)]
pub use format::with_checksum;
pub use format::{DEFAULT_MAX_PLAN_SIZE, PLAN_VERSION};
pub use objects::{ObjectUpload, Objects, OpenObject, UploadParts};
pub use options::PartOptions;
pub use plan::{PartsPlan, Planner};
pub use plan_file::PlanFile;
pub use plan_report::PlanReport;
pub use report::PartReport;
pub use shard::{Shard, ShardOptions, ShardWriter, commit_shards};
pub use splitting::CommittedSplit;
pub use store::{FolderStore, PartStore};
pub use verifying::CommittedVerify;
