"""Parameters of XGBoost, LightGBM, CatBoost and scikit-learn, and their equivalents here.

An estimator that gets one of these names answers with its own. The tables of the guide are written
from ``EQUIVALENTS``.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Any, NamedTuple


class Equivalent(NamedTuple):
    """The equivalent of a parameter of other libraries.

    Parameters
    ----------
    names : str
        The name elsewhere, with its aliases.
    here : str
        Parameters here that may have the meaning; an estimator answers with the first that it has.
        Empty: there is none.
    note : str
        What differs, or what to do instead, as part of a sentence.
    libraries : str
        The initials of the libraries: X, L, C, S.
    """

    names: str
    here: str
    note: str
    libraries: str


EQUIVALENTS = (
    # The size of the model
    Equivalent(
        "num_boost_round num_iterations num_iteration num_round num_rounds num_trees num_tree "
        "n_iter nrounds iterations max_iter",
        "n_estimators", "", "XLCS",
    ),
    Equivalent("eta shrinkage_rate", "learning_rate", "", "XLC"),
    Equivalent("num_leaves num_leaf max_leaves max_leaf", "max_leaf_nodes", "", "XLC"),
    Equivalent("depth", "max_depth", "", "C"),
    Equivalent(
        "boosting boosting_type booster boost", "dropout",
        "dropout=0.1 is DART, sampling='goss' is GOSS, RandomForest… is 'rf', linear_leaves=True "
        "is near to 'gblinear'", "XLC",
    ),
    Equivalent(
        "num_parallel_tree", "",
        "bag boosted models with BaggingClassifier or BaggingRegressor", "X",
    ),
    Equivalent("base_estimator", "estimator", "", "S"),
    # Regularisation
    Equivalent(
        "reg_lambda lambda lambda_ lambda_l2 l2 l2_leaf_reg", "l2_regularization", "", "XLC"
    ),
    Equivalent(
        "reg_alpha lambda_l1 l1 l1_regularization", "",
        "leaf values have no L1 penalty; l2_regularization and min_gain_to_split regularise",
        "XL",
    ),
    Equivalent("gamma min_split_loss min_split_gain", "min_gain_to_split", "", "XL"),
    Equivalent(
        "min_child_weight min_sum_hessian_in_leaf min_sum_hessian_per_leaf min_hessian",
        "min_sum_hessian", "", "XL",
    ),
    Equivalent(
        "min_data_in_leaf min_data_per_leaf min_data min_child_samples", "min_samples_leaf", "",
        "LC",
    ),
    Equivalent(
        "max_delta_step poisson_max_delta_step max_tree_output max_leaf_output", "loss",
        "steps are bounded by the loss where they would diverge; for counts pass "
        "loss=gpuens.losses.Poisson(max_delta_step=0.7)", "XL",
    ),
    Equivalent("path_smooth", "", "l2_regularization draws leaf values towards zero", "L"),
    Equivalent(
        "random_strength", "", "colsample_bynode draws the features of a split at random", "C"
    ),
    Equivalent(
        "leaf_estimation_method leaf_estimation_iterations leaf_estimation_backtracking", "",
        "leaf values are exact or one Newton step; line_search=True scales each tree", "C",
    ),
    Equivalent(
        "ccp_alpha", "min_gain_to_split min_impurity_decrease",
        "boosted trees are not pruned after growth", "S",
    ),
    Equivalent(
        "min_weight_fraction_leaf", "min_sum_hessian",
        "which is a sum, not a share of the weights", "S",
    ),
    Equivalent(
        "criterion split_criterion score_function", "", "splits are scored by the loss", "CS"
    ),
    # Sampling
    Equivalent("bagging_fraction sub_row bagging sample_rate", "subsample max_samples", "", "L"),
    Equivalent("bagging_freq subsample_freq", "subsample", "rows are drawn in every round", "L"),
    Equivalent(
        "sampling_method data_sample_strategy bootstrap_type", "sampling bootstrap",
        "sampling is 'uniform', 'goss' or 'mvs'", "XLC",
    ),
    Equivalent("bagging_temperature", "", "subsample draws rows, each with weight one", "C"),
    Equivalent(
        "feature_fraction sub_feature", "colsample_bytree max_features", "drawn for each tree", "L"
    ),
    Equivalent(
        "feature_fraction_bynode sub_feature_bynode rsm colsample_bylevel colsample_bynode",
        "colsample_bynode max_features", "", "XLC",
    ),
    Equivalent("colsample_bytree", "max_features", "", "XL"),
    Equivalent("extra_trees extra_tree", "splitter", "use ExtraTrees… for random cuts", "L"),
    Equivalent("feature_weights", "", "features are drawn with equal chances", "X"),
    # Dropout
    Equivalent("rate_drop drop_rate", "dropout", "", "XL"),
    Equivalent("skip_drop", "skip_dropout", "", "XL"),
    Equivalent("one_drop", "dropout", "a round may leave out no tree at all", "X"),
    Equivalent("sample_type", "uniform_drop", "", "X"),
    Equivalent("normalize_type xgboost_dart_mode", "normalize_drop", "", "XL"),
    # The loss
    Equivalent(
        "objective loss_function application app objective_type", "loss criterion", "", "XLC"
    ),
    Equivalent(
        "eval_metric metric metrics metric_types custom_metric custom_loss", "scoring", "", "XLC"
    ),
    Equivalent(
        "quantile_alpha expectile_alpha alpha", "quantile",
        "of loss='quantile' or 'expectile'", "XLS",
    ),
    Equivalent(
        "huber_slope delta", "loss", "pass loss=gpuens.losses.Huber(…)", "X"
    ),
    Equivalent(
        "tweedie_variance_power variance_power", "loss",
        "pass loss=gpuens.losses.Tweedie(power)", "XLC",
    ),
    Equivalent(
        "aft_loss_distribution aft_loss_distribution_scale", "loss",
        "pass loss=gpuens.losses.AFT(distribution, scale)", "X",
    ),
    Equivalent(
        "lambdarank_truncation_level lambdarank_norm label_gain sigmoid "
        "lambdarank_pair_method lambdarank_num_pair_per_sample", "loss",
        "pass loss=gpuens.losses.LambdaRank(…) to GradientBoostingRanker", "XL",
    ),
    Equivalent(
        "scale_pos_weight", "class_weight", "class_weight={0: 1, 1: w} is scale_pos_weight=w", "XLC"
    ),
    Equivalent(
        "is_unbalance unbalance unbalanced_sets auto_class_weights", "class_weight",
        "class_weight='balanced'", "LC",
    ),
    Equivalent("class_weights", "class_weight", "a dict from classes to weights", "C"),
    Equivalent(
        "num_class num_classes classes_count class_names", "", "the classes are those of y", "XLC"
    ),
    Equivalent(
        "base_score boost_from_average init_score", "init",
        "training starts from the best constant; init='zero' or an estimator changes that", "XLC",
    ),
    Equivalent(
        "multi_output", "multi_strategy", "", "X"
    ),
    # Early stopping
    Equivalent(
        "early_stopping_rounds early_stopping_round od_wait", "n_iter_no_change",
        "with early_stopping=True", "XLC",
    ),
    Equivalent("od_type od_pval", "early_stopping", "", "C"),
    Equivalent("use_best_model save_best", "keep_best", "", "C"),
    Equivalent(
        "early_stopping_min_delta min_delta", "tol", "", "L"
    ),
    Equivalent("first_metric_only", "scoring", "the first metric is watched", "L"),
    # Categories, missing values, constraints
    Equivalent(
        "cat_features categorical_feature cat_feature categorical_column categorical_columns "
        "enable_categorical feature_types cat_column", "categorical_features",
        "columns of categories of a data frame are found by themselves", "XLC",
    ),
    Equivalent("one_hot_max_size", "max_cat_to_onehot", "", "C"),
    Equivalent(
        "max_cat_threshold min_data_per_group", "cat_smooth", "cat_l2 and cat_smooth regularise",
        "XL",
    ),
    Equivalent("missing nan_mode use_missing zero_as_missing", "", "NaN is missing", "XLC"),
    Equivalent(
        "monotone_constraints mc monotone_constraint", "monotonic_cst", "", "XLC"
    ),
    Equivalent(
        "monotone_constraints_method monotone_constraining_method mc_method monotone_penalty "
        "monotone_splits_penalty ms_penalty mc_penalty",
        "monotonic_cst", "there is one method", "L",
    ),
    Equivalent("interaction_constraints", "interaction_cst", "", "XL"),
    Equivalent("linear_tree linear_trees", "linear_leaves", "", "L"),
    # Bins
    Equivalent("max_bin border_count", "max_bins", "at most 255", "XLC"),
    Equivalent(
        "tree_method", "max_bins", "max_bins=None of trees and forests is 'exact'", "X"
    ),
    Equivalent(
        "subsample_for_bin bin_construct_sample_cnt min_data_in_bin feature_border_type",
        "max_bins", "bins hold about the same number of rows each", "LC",
    ),
    # The machine
    Equivalent("seed random_seed", "random_state", "", "XLC"),
    Equivalent("nthread num_threads num_thread nthreads thread_count", "n_jobs", "", "XLC"),
    Equivalent(
        "gpu_id task_type device_type devices predictor gpu_device_id", "device",
        "device='cuda'", "XLC",
    ),
    Equivalent("verbosity verbose_eval logging_level silent", "verbose", "", "XLC"),
    Equivalent(
        "deterministic force_col_wise force_row_wise", "",
        "models are the same on every device, and the layout is chosen for the machine", "L",
    ),
    Equivalent("validate_parameters", "", "parameters are always checked", "X"),
    Equivalent(
        "importance_type", "", "use gpuens.inspection.feature_importances(model, kind)", "XL"
    ),
    Equivalent(
        "gpu_platform_id gpu_device_id_list gpu_use_dp num_gpu gpu_ram_part pinned_memory_size "
        "device_config data_partition gpu_cat_features_storage",
        "device", "device='cuda' takes the current GPU", "LC",
    ),
    Equivalent(
        "feature_fraction_seed bagging_seed bagging_fraction_seed drop_seed data_random_seed "
        "data_seed extra_seed objective_seed", "random_state", "one seed for all draws", "L",
    ),
    Equivalent(
        "enable_bundle is_enable_bundle bundle is_enable_sparse is_sparse enable_sparse sparse "
        "sparse_features_conflict_fraction dev_efb_max_buckets dev_score_calc_obj_block_size "
        "feature_pre_filter histogram_pool_size hist_pool_size used_ram_limit",
        "", "tables may be sparse, and the layout is chosen for the machine", "LC",
    ),
    Equivalent(
        "num_machines num_machine machine_list_filename machine_list_file machine_list mlist "
        "machines local_listen_port local_port time_out tree_learner tree_learner_type tree_type "
        "pre_partition is_pre_partition top_k topk",
        "", "there are estimators for clusters of Dask", "L",
    ),
    # Bins, splits and rows that others let choose
    Equivalent(
        "use_quantized_grad num_grad_quant_bins quant_train_renew_leaf stochastic_rounding",
        "", "gradients are always integers, and leaf values are not rounded", "L",
    ),
    Equivalent(
        "forcedsplits_filename forced_splits_filename forced_splits_file forced_splits fs "
        "forcedbins_filename max_bin_by_feature fixed_binary_splits "
        "per_float_feature_quantization input_borders output_borders",
        "", "bins and splits follow from the data", "LC",
    ),
    Equivalent(
        "cegb_tradeoff cegb_penalty_split cegb_penalty_feature_lazy cegb_penalty_feature_coupled "
        "feature_contri feature_contrib feature_penalty fc fp penalties_coefficient "
        "first_feature_use_penalties per_object_feature_penalties",
        "", "features have no costs; min_gain_to_split bounds the gain of every split", "LC",
    ),
    Equivalent(
        "pos_bagging_fraction pos_sub_row pos_subsample pos_bagging neg_bagging_fraction "
        "neg_sub_row neg_subsample neg_bagging sampling_frequency",
        "subsample", "rows of all classes have equal chances, in every round", "LC",
    ),
    Equivalent("mvs_reg", "sampling", "sampling='mvs'", "C"),
    Equivalent(
        "model_shrink_rate model_shrink_mode langevin diffusion_temperature posterior_sampling "
        "random_score_type", "", "learning_rate, subsample and colsample_bynode regularise", "C",
    ),
    Equivalent("reg_sqrt target_border", "", "transform y before fit", "LC"),
    Equivalent("fair_c", "loss", "pass loss=gpuens.losses.Huber(…)", "L"),
    # Categories and text
    Equivalent(
        "counter_calc_method ctr_leaf_count_limit store_all_simple_ctr max_ctr_complexity "
        "simple_ctr combinations_ctr per_feature_ctr ctr_description ctr_target_border_count "
        "ctr_history_unit final_ctr_computation_mode model_size_reg has_time "
        "fold_permutation_block fold_len_multiplier approx_on_full_history",
        "categorical_features", "few categories are split as sets, many by mean gradients", "C",
    ),
    Equivalent(
        "text_features tokenizers dictionaries feature_calcers text_processing "
        "embedding_features", "", "turn text into numbers first, as scikit-learn's vectorizers do",
        "C",
    ),
    # Reports, files and predictions
    Equivalent(
        "metric_freq output_freq metric_period is_provide_training_metric training_metric "
        "is_training_metric train_metric", "verbose", "every round is reported", "LC",
    ),
    Equivalent(
        "eval_at ndcg_eval_at ndcg_at map_eval_at map_at multi_error_top_k auc_mu_weights",
        "scoring", "names and functions of metrics", "L",
    ),
    Equivalent("eval_fraction", "validation_fraction", "with early_stopping=True", "C"),
    Equivalent("callback", "callbacks", "", "C"),
    Equivalent(
        "snapshot_freq save_period save_snapshot snapshot_file snapshot_interval",
        "callbacks", "with gpuens.callbacks.Checkpoint", "LC",
    ),
    Equivalent("allow_writing_files train_dir", "", "fit writes no files", "C"),
    Equivalent(
        "input_model model_input model_in output_model model_output model_out", "",
        "model.save(path) and gpuens.load(path)", "L",
    ),
    Equivalent(
        "convert_model convert_model_file convert_model_language", "",
        "model.to_c, model.to_onnx and others write files", "L",
    ),
    Equivalent(
        "config config_file task data train_data train_data_file data_filename valid_data "
        "valid_data_file test_data test_data_file valid_filenames header has_header label_column "
        "weight_column group_column group_id query_column query_id two_round two_round_loading "
        "use_two_round_loading save_binary is_save_binary is_save_binary_file parser_config_file "
        "precise_float_parser output_result predict_result prediction_result predict_name "
        "prediction_name pred_name name_pred",
        "", "tables are arguments of fit and predict; `python -m gpuens fit` reads files", "L",
    ),
    Equivalent(
        "ignore_column ignore_feature blacklist ignored_features", "", "leave columns out of X",
        "LC",
    ),
    Equivalent(
        "predict_raw_score is_predict_raw_score predict_rawscore raw_score predict_leaf_index "
        "is_predict_leaf_index leaf_index predict_contrib is_predict_contrib contrib "
        "predict_disable_shape_check start_iteration_predict num_iteration_predict "
        "pred_early_stop pred_early_stop_freq pred_early_stop_margin",
        "", "apply, staged_predict and predict(X, pred_contribs=True) are methods of the model",
        "L",
    ),
    Equivalent("base_learner learner members", "estimator estimators", "", "S"),
    Equivalent("meta_estimator meta_classifier meta_regressor", "final_estimator", "", "S"),
)  # fmt: skip

_BY_NAME = {name: row for row in EQUIVALENTS for name in row.names.split()}

VALUES: dict[str, dict[str, str]] = {
    "loss": {
        **dict.fromkeys(
            ("mse", "rmse", "l2", "ls", "regression", "reg:squarederror", "least_squares",
             "mean_squared_error",
             "l2_root", "RMSE"),
            "squared_error",
        ),
        **dict.fromkeys(
            ("mae", "l1", "lad", "regression_l1", "reg:absoluteerror", "MAE",
             "mean_absolute_error"), "absolute_error",
        ),
        **dict.fromkeys(("reg:pseudohubererror", "Huber", "huber_loss"), "huber"),
        **dict.fromkeys(("reg:quantileerror", "Quantile", "pinball"), "quantile"),
        **dict.fromkeys(("reg:expectileerror", "Expectile"), "expectile"),
        **dict.fromkeys(("count:poisson", "Poisson"), "poisson"),
        **dict.fromkeys(("reg:gamma", "Gamma"), "gamma"),
        **dict.fromkeys(("reg:tweedie", "Tweedie"), "tweedie"),
        **dict.fromkeys(
            ("binary", "binary:logistic", "multi:softprob", "multi:softmax", "multiclass",
             "softmax", "logistic", "Logloss", "MultiClass", "deviance", "logloss",
             "cross_entropy", "binary_crossentropy", "categorical_crossentropy", "auto"),
            "log_loss",
        ),
        **dict.fromkeys(("rank:ndcg", "lambdamart"), "lambdarank"),
        **dict.fromkeys(("rank:pairwise", "PairLogit"), "pairwise"),
        **dict.fromkeys(("rank_xendcg",), "xendcg"),
        **dict.fromkeys(("survival:cox", "Cox"), "cox"),
        **dict.fromkeys(("survival:aft", "SurvivalAft"), "aft"),
    },
    "device": {
        **dict.fromkeys(("gpu", "GPU", "CUDA", "cuda:all"), "cuda"),
        **dict.fromkeys(("CPU",), "cpu"),
    },
    "criterion": {
        **dict.fromkeys(("mse", "variance"), "squared_error"),
        **dict.fromkeys(("mae",), "absolute_error"),
        **dict.fromkeys(("logloss", "information_gain"), "entropy"),
    },
    "sampling": {"bernoulli": "uniform", "gradient_based": "mvs", "MVS": "mvs", "GOSS": "goss"},
    "grow_policy": {
        "Lossguide": "lossguide", "Depthwise": "depthwise", "SymmetricTree": "symmetric",
    },
    "class_weight": {"Balanced": "balanced", "auto": "balanced"},
}  # fmt: skip
"""Values of parameters elsewhere, and here."""


def meant(name: str, known: Collection[str]) -> str:
    """Return the sentence that answers an unknown parameter; empty if nothing is near.

    Parameters
    ----------
    name : str
        As the user wrote it.
    known : collection of str
        The parameters of the estimator.
    """
    row = _BY_NAME.get(name) or _BY_NAME.get(name.lower())
    here = next((own for own in row.here.split() if own in known), None) if row else None
    if row and here:
        note = f" ({row.note}.)" if row.note else ""
        return f"Did you mean {here}?{note}"
    if row and row.note:
        return f"It has no equivalent here: {row.note}."
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"Did you mean {close[0]}?" if close else ""


def meant_value(name: str, value: Any) -> str:
    """Return the sentence that answers a value of other libraries, after a space, or nothing."""
    here = VALUES.get(name, {}).get(value) if isinstance(value, str) else None
    return "" if here is None else f" Did you mean {here!r}?"
