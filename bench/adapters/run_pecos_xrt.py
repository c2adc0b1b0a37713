"""PECOS's XR-Transformer on given TF-IDF features: its own preliminary tree, fine-tuning level by level, refined tree
and rankers, with its defaults but for what the job asks: encoder folder, steps in all, batch size, length, rates. Steps
are shared out evenly among the levels, as xmcspark does. It reads a BERT's pooler output, and pads all texts alike."""

import os
import random

import numpy as np
import torch
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xtransformer.model import XTransformer
from pecos.xmc.xtransformer.module import MLProblemWithText
from stopwatch import folder_mb, ranked, run_job


def main(job):
    # PECOS takes all CPUs that it sees, in several places that no option reaches.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: job.threads])
    torch.set_num_threads(job.threads)
    for seeded in (random.seed, np.random.seed, torch.manual_seed):
        seeded(job.seed)
    asked = job.options["train"]
    problem = MLProblemWithText(job.texts("train"), job.matrix("Y"), X_feat=job.matrix("X"))
    model = job.measure("train", lambda: trained(job, problem, asked), again=False)
    model.save(str(job.scratch / "model"))
    job.facts["model_mb"] = folder_mb(job.scratch / "model")
    found = job.measure("predict_batch", lambda: predicted(job, asked), again=False)
    np.save(job.scratch / "top.npy", ranked(found, job.top_k))


def trained(job, problem, asked):
    tree = {"nr_splits": asked["branching"], "max_leaf_size": asked["max_leaf"], "seed": job.seed}
    clustering = Indexer.gen(
        LabelEmbeddingFactory.pifa(problem.Y, problem.X_feat, threads=job.threads),
        threads=job.threads,
        **tree,
    )
    sizes = [int(level.shape[0]) for level in clustering]
    steps = max(1, round(asked["steps"] / len(sizes)))
    job.facts |= {"levels": sizes, "steps_a_level": steps}
    return XTransformer.train(
        problem,
        clustering=clustering,
        train_params=train_params(job, asked, steps),
        pred_params=pred_params(asked),
        threads=job.threads,
        beam_size=asked["parents"],
    )


def train_params(job, asked, steps):
    given = XTransformer.TrainParams.from_dict({}, recursive=True)
    given.max_match_clusters = 2**31 - 1  # down to the labels
    fine_tuning = given.matcher_params_chain
    fine_tuning.model_shortcut = asked["encoder"]
    fine_tuning.negative_sampling = "tfn+man"
    fine_tuning.cost_sensitive_ranker = asked["cost_sensitive"]
    fine_tuning.batch_size = asked["batch_size"]
    fine_tuning.gradient_accumulation_steps = asked["accumulate"]
    fine_tuning.max_steps, fine_tuning.warmup_steps = steps, round(asked["warmup"] * steps)
    fine_tuning.save_steps = fine_tuning.logging_steps = steps
    fine_tuning.learning_rate, fine_tuning.weight_decay = asked["learning_rate"], asked["weight_decay"]
    fine_tuning.max_grad_norm, fine_tuning.hidden_dropout_prob = asked["clip"], asked["dropout"]
    # Also the threads of a sparse product, where 0 is a division by zero.
    fine_tuning.batch_gen_workers, fine_tuning.use_gpu = job.threads, False
    given.refined_indexer_params.seed = job.seed
    return given


def pred_params(asked):
    given = XTransformer.PredParams.from_dict({}, recursive=True)
    given.matcher_params_chain.truncate_length = asked["max_length"]
    given.matcher_params_chain.only_topk = asked["parents"]
    return given


def predicted(job, asked):
    """By the model saved and re-loaded for prediction, since one fresh from training is slower."""
    model = XTransformer.load(str(job.scratch / "model"), is_predict_only=True)
    return model.predict(
        job.texts("test"),
        X_feat=job.matrix("Xt"),
        batch_size=asked["embed_batch"],
        batch_gen_workers=job.threads,
        use_gpu=False,
        beam_size=job.beam,
        only_topk=job.top_k,
        threads=job.threads,
    )


run_job(main)
