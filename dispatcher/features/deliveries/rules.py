"""The answers of the schema to actions on deliveries and runs, in words. The first answer of each means done."""

from collections.abc import Mapping

# The answer for a delivery that was cancelled after an attempt with an unknown outcome.
STOPPED = "stopped"
DELIVERY_ANSWERS: Mapping[str, Mapping[str, str]] = {
    "retry": {
        "reopened": "will be sent again",
        "queued": "is not finished, so there is nothing to retry",
    },
    "repair": {
        "repaired": "is written anew",
        "queued": "is not finished, so there is nothing to repair",
        "ordered": "belongs to a run that waits for it: replay that, or trigger another one with what is missing",
        "other": "was written anew before, with other variables",
    },
    "cancel": {
        "cancelled": "is cancelled",
        STOPPED: "is not sent again, but held: an earlier attempt may have gone out",
        "skipped": "was skipped or cancelled before",
    },
    "move": {
        "moved": "is moved",
        "skipped": "was skipped or cancelled, so there is nothing to move",
    },
    "discard": {
        "discarded": "is discarded: it stays failed, and is no dead letter any more",
        "same": "was discarded before",
        "queued": "is not finished, so there is nothing to discard",
        "failed": "belongs to a run or to a job of a campaign: discard that, if it has failed",
    },
}
COMMON_ANSWERS = {
    "unknown": "does not exist",
    "sending": "is with its provider: too late",
    "held": "is held: a call was begun and nobody knows how it ended",
    "sent": "has been sent: too late",
    "called": "has been called: too late",
    "posted": "has been posted: too late",
    "failed": "has failed",
    "skipped": "was skipped",
    "erased": "was erased: there is nothing left to send",
    "repaired": "was written anew as another delivery: retry that one, if it has failed",
    "never queued": "was written as ended by its campaign and never queued: there is nothing to send",
}

RUN_ANSWERS: Mapping[str, Mapping[str, str]] = {
    "pause": {"done": "is paused", "same": "is paused already"},
    "resume": {"done": "goes on", "same": "is not paused"},
    "cancel": {"cancelled": "is cancelled: it sends nothing more"},
    "replay": {"replayed": "goes on from where it had failed; what was sent is not sent again"},
    "discard": {
        "discarded": "is discarded: it stays failed, and is no dead letter any more",
        "same": "was discarded before",
    },
    "signal": {"accepted": "has the event"},
}
ONLY_FAILED = {"replay": "retried", "discard": "discarded"}
JOB_ANSWERS: Mapping[str, Mapping[str, str]] = {
    "replay": {
        "replayed": "goes on: its failed deliveries will be sent again",
        "partly replayed": "goes on, but for erased, repaired or never queued deliveries: there is nothing to send",
        "never queued": "has only erased, repaired or never queued deliveries: there is nothing to send",
        "cancelled": "belongs to a run that was cancelled: it sends nothing more",
    },
    "discard": {
        "discarded": "is discarded: its deliveries stay failed, and it is no dead letter any more",
        "same": "was discarded before",
    },
}
JOB_DONE = {"replayed", "partly replayed", "discarded"}
# The answer for a run, delivery or job that is not a dead letter.
NOT_DEAD = "none"
ENDED = {"completed": "is completed", "failed": "has failed", "cancelled": "was cancelled"}


def delivery_sentence(action: str, delivery_id: int, answer: str) -> tuple[bool, str]:
    """Return whether an action on a delivery was done, and the sentence about it."""
    answers = DELIVERY_ANSWERS[action]
    words = answers.get(answer) or COMMON_ANSWERS.get(answer, answer)
    return answer == next(iter(answers)), f"delivery {delivery_id} {words}"


def run_sentence(verb: str, run_id: int, answer: str) -> tuple[bool, str]:
    """Return whether an action on a run was done, and the sentence about it."""
    if answer == "unknown":
        return False, f"there is no run {run_id}"
    answers = RUN_ANSWERS[verb]
    if answer in answers:
        return answer == next(iter(answers)), f"run {run_id} {answers[answer]}"
    why = f"only a failed one can be {ONLY_FAILED[verb]}" if verb in ONLY_FAILED else "too late"
    # A run that was cancelled before is not cancelled by this action.
    return False, f"run {run_id} {ENDED.get(answer, f'is {answer}')}: {why}"


def dead_letter_sentence(verb: str, kind: str, number: int, answer: str) -> tuple[bool, str]:
    """Return whether an action on a dead letter was done, and the sentence about it."""
    if answer == NOT_DEAD:
        return False, f"{kind} {number} is no dead letter"
    if kind == "run":
        return run_sentence(verb, number, answer)
    if kind == "job":
        return answer in JOB_DONE, f"job {number} {JOB_ANSWERS[verb].get(answer, COMMON_ANSWERS.get(answer, answer))}"
    return delivery_sentence("retry" if verb == "replay" else verb, number, answer)
