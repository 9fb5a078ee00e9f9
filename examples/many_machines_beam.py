"""Splits a message with Apache Beam: `many_machines_beam.py SOURCE PREFIX TYPE [PARTS] [options of Beam]`.

Every worker needs the package `proto-splitter` and sees the same files under the same paths.
"""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from proto_splitter.parts import Plan, commit, plan_split, run_part


class Part(beam.DoFn):
    """Runs a part. A failed bundle is run again, which is harmless."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def process(self, part: int):
        yield run_part(self.plan, part, threads=1)


def main(arguments: list[str]) -> None:
    source, prefix, message, *rest = arguments
    parts = int(rest.pop(0)) if rest and rest[0].isdigit() else 16
    plan = plan_split(source, prefix, message, plan=prefix + ".plan", parts=parts)
    with beam.Pipeline(options=PipelineOptions(rest)) as pipeline:
        _ = (
            pipeline
            | beam.Create(range(plan.parts))
            | beam.Reshuffle()  # One bundle per part, so that the parts are distributed.
            | beam.ParDo(Part(plan))
        )
    # The pipeline succeeded, so every part has left its report next to the plan.
    print(commit(plan)["output"])


if __name__ == "__main__":
    main(sys.argv[1:])
