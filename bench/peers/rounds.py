"""Alternating with another program, so that both meet the same moods of a shared machine."""

import shlex
import subprocess

import torch

import peer_result
from launched import plan_of


def add_arguments(parser, trials):
    """What is timed how often, in turns with what, and where it is written."""
    parser.add_argument("--trials", type=int, default=trials)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--beside", metavar="COMMAND", action="append", help="alternate with this program")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--save", required=True, help="JSON file to write, one for each {round}")


def parse(parser):
    args = parser.parse_args()
    if (args.rounds > 1 or "{round}" in args.save) != bool(args.beside):
        parser.error("--beside, --rounds and a {round} in --save go together")
    return args


def run_commands(commands, number):
    for command in commands:
        subprocess.run(shlex.split(command.replace("{round}", str(number))), check=True)


def tell(results):
    for result in results:
        row = result["trials"][0]["statistics"]
        print(f"{result['id']}: median {row['median_ms']:.3f} ms, quartiles {row['q1_ms']:.3f} to {row['q3_ms']:.3f}, n {row['n']}",
              flush=True)


def in_rounds(commands, rounds, measure):
    """For each round its number and what `measure` says of it. The other program, if there is one, runs before that
    in even rounds and after it in odd ones."""
    for number in range(rounds):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # what runs next needs memory too
        if commands and number % 2 == 0:
            run_commands(commands, number)
        results = measure(number)
        if commands and number % 2 == 1:
            run_commands(commands, number)
        yield number, results


def save_rounds(args, forms, measure):
    """Writes what `measure` says of each round into a result file of its own, with what the forms launched."""
    plans = {form.name: plan_of("forward", form.kernels) for form in forms if form.kernels}
    for number, results in in_rounds(args.beside, args.rounds, measure):
        peer_result.write(args.save.replace("{round}", str(number)), results, plans)
        tell(results)
