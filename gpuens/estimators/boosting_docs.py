"""The text that the docstrings of the gradient boosting estimators share."""

from __future__ import annotations

BOOSTING = """Parameters are in groups, the most important groups and parameters first. With nothing
    set, rows that are held out decide how long to train; the other parameters that are "auto"
    follow from that, and are what they always were for a number of rounds.

    Parameters
    ----------
    Model
        What is learned, and in how many steps.
    loss : <losses>
    n_estimators : int or "auto", default="auto"
        Rounds of boosting; a round grows one tree, or one a class where there are more
        than two, or one a target or quantile where there are several. "auto" holds rows out, in
        turn where there are few, finds the number of rounds that is best for them, and trains so
        many on all rows, which takes several times as long: at most 2000, of tables above 20,000
        rows fewer, down to 300. Where ``early_stopping`` watches other rows, these decide. 100
        where no rows can be held out: below 50 rows or 10 queries, with ``dropout``, with an
        estimator as ``init``, with a loss that has no value, for a model that goes on, and for
        rows that workers share. Set a number for
        models that are quick to train, or to compare settings: too many rounds overfit.
    learning_rate : float, "auto", sequence of float or callable, default="auto"
        Factor on every leaf value (shrinkage): one for all rounds, one for each, or what a
        function of the number of rounds before gives. Lower rates often generalise better and
        need more rounds: half the rate, about twice ``n_estimators``. "auto" is 0.1 for a number of
        rounds, and where rounds are searched for 0.05 at 6000 rows, growing with the fifth root of
        their number from 0.025 to 0.1, by half more where one tree serves all classes.
    Growing
        The shape of each tree.
    max_leaf_nodes : int or None, default=31
        The best leaf is split first until there are this many. None grows level by level. Raise
        it for large tables with interactions, lower it where the model fits the training rows much
        better than others. Trees that grow by levels are limited by ``max_depth`` alone.
    max_depth : int or None, default=None
        Longest path from the root to a leaf, in splits: at most so many features interact. Set it
        to limit the order of interactions (1: none), or, with ``max_leaf_nodes=None``, to grow
        level by level. None is 6 with ``grow_policy`` "depthwise" and "symmetric": from 4 to 8 is
        usual.
    grow_policy : {"auto", "lossguide", "depthwise", "symmetric"}, default="auto"
        The shape of the trees. "lossguide" splits the best leaf first (see ``max_leaf_nodes``),
        "depthwise" all leaves of a level down to ``max_depth``. "auto" is "lossguide", but where
        rounds are searched for on at most 20,000 rows and 256 features, which are not sparse, and
        no other limit of trees is set, the better one of "lossguide" and "symmetric" for the rows
        held out (``grow_policy_``). "symmetric" splits all nodes of a level by the same feature
        and threshold, with missing values on the same side: the split with the largest sum of
        their gains (Prokhorenkova et al. 2018, "CatBoost"). Try it where the target is smooth in
        the features, for several classes and for small tables; it needs more rounds there, and
        predicts faster. A node in which the split would break ``min_samples_leaf`` or a constraint
        stays whole at that level. While splits are compared, rows are estimated from hessians;
        ``min_gain_to_split`` is that of a level, ``colsample_bynode`` the share drawn for a level,
        and categories have one order for all its nodes.
    min_samples_leaf : int or "auto", default="auto"
        Fewest rows of a leaf. Raise it for noisy targets, lower it for tables of a few hundred
        rows. "auto" is 10, but 1 for symmetric trees where rounds are searched for: a split that
        all nodes of a level share cannot isolate single rows as it likes.
    max_bins : int, default=255
        Most bins of a feature, from 2 to 255; missing values have one of their own, and extreme
        values theirs. Fewer bins train faster and smooth thresholds.
    min_samples_split : int or float, default=2
        Fewest rows of a node that is split, as a number or as a share of the rows.
        ``min_samples_leaf`` usually suffices.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        How several classes, targets or quantiles share the trees of a round. "multi_output_tree":
        one tree, whose leaves have a value of each, is grown on a random projection of the
        gradients of all (Iosipoi and Vakhrushev 2022). A round then takes a fraction of the time;
        allow two to four times as many. It is usually more accurate from three classes on:
        "auto" takes it there where rounds are searched for. ``min_sum_hessian`` and gains then
        count rows by their weights.
    linear_leaves : bool, default=False
        Whether leaves have linear functions of the numeric features that lead to them, in place of
        constants, but for those of the first round (Shi et al. 2019). A row with a missing value
        in a feature of its leaf gets the constant. Try it where the target is smooth in the
        features, and with fewer leaves.
    line_search : bool, default=False
        Whether each round goes along its trees to where the loss is least, at most 16 times
        their values, before ``learning_rate`` is applied (Friedman 2001, eq. 12). Losses whose
        leaf values are exact minima are there already.
    <init>Regularisation
        What keeps trees from fitting noise, or makes them respect what is known.
    l2_regularization : float, default=1.0
        Added to the sum of the loss's second derivatives in a leaf where leaf values and gains are
        computed: leaves of few rows are drawn towards zero. Raise it (10, 100) where single rows
        have too much influence.
    min_sum_hessian : float, default=1e-3
        Least sum of the loss's second derivatives in a leaf: for the squared error the number of
        rows, for classes less where the model is sure. Raise it for rare classes that are
        overfitted.
    min_gain_to_split : float, default=0.0
        A split must improve the second-order model of the loss by more than this. Raise it to
        leave out splits that hardly matter; its scale is that of the loss, summed over the rows.
    min_impurity_decrease : float, default=0.0
        The same for each unit of weight of the tree's rows: with the squared error and
        ``l2_regularization=0`` the least decrease of the variance, as in scikit-learn.
    linear_lambda : float, default=0.0
        L2 penalty on the coefficients of linear leaves. Raise it where their predictions
        extrapolate too far.
    monotonic_cst : array-like of int, shape (n_features,), or dict, default=None
        1: raw predictions, and so the chance of class 1, must not fall as the feature rises, -1:
        not rise, 0: free. A dict has names of columns as keys. Not for more than two classes. Set
        it where the direction of an effect is known.
    interaction_cst : "pairwise", "no_interactions" or list of sets, default=None
        Which features may meet on a path from the root to a leaf: any two, none, or those of a
        set, by position or name. Features that are in no set are one more set. Set it to get a
        model that can be explained feature by feature.
    Sampling
        What each round sees of the rows, and each tree, level or node of the features.
    subsample : float or "auto", default="auto"
        Chance of a row to take part in a round, drawn without replacement. Below 1 (0.5 to 0.8)
        trees differ more and train faster, which helps on noisy targets. "auto" is 0.8 where
        rounds are searched for and ``sampling="uniform"``, otherwise 1.
    colsample_bytree, colsample_bylevel : float, default=1.0
        Share of the features drawn for each tree, and of those for each level. Lower them for
        tables with many related features.
    colsample_bynode : float or "auto", default="auto"
        Share of these that is drawn for each node. "auto" is 0.6 where rounds are searched for
        and X is not sparse, otherwise 1.
    max_features : int, float, "sqrt", "log2" or None, default=None
        ``colsample_bynode`` in scikit-learn's words: of all features the number or share that each
        node looks at. Of features drawn for a tree or level a node looks at the same share.
    <class_weight>sampling : {"uniform", "goss", "mvs", "balanced"}, default="uniform"
        How the rows of each round are drawn, without replacement. "goss": the ``top_rate`` with
        the largest gradients, and ``other_rate`` of all rows from the others (Ke et al. 2017),
        after ``1 / learning_rate`` rounds with all rows, as in LightGBM.
        "mvs": chances in proportion to the size of the gradients, ``subsample`` of the rows
        expected (Ibragimov and Gusev 2019). "balanced": as many rows of every class. All but
        "uniform" count a row that was drawn with chance p for 1/p rows, so that sums keep their
        expectation. "mvs" loses least accuracy for the time that it saves on large tables.
    top_rate, other_rate : float, default=0.2 and 0.1
        Shares of all rows for sampling="goss": those with the largest gradients, and those of the
        others. Lower both to train faster.
    Early stopping
        When training ends before ``n_estimators`` rounds.
    early_stopping : bool or "auto", default=False
        Stop when the first metric on the first evaluation set (or, without one, on rows held
        out) has not improved for ``n_iter_no_change`` rounds. "auto": with an evaluation set,
        or with more than 10000 rows. Turn it on, with a large ``n_estimators``, in place of
        choosing the number of rounds.
    n_iter_no_change : int, default=10
        Rounds without improvement after which early stopping ends the training. Raise it (50)
        with a low ``learning_rate``, or where the metric of the held-out rows is noisy.
    validation_fraction : float, int or None, default=0.1
        Share or number of rows to hold out, drawn as HistGradientBoosting draws them for the same
        whole number as ``random_state``. None: early stopping watches the training rows. Raise it
        for small tables, or pass ``eval_set`` to ``fit`` where rows depend on each other.
    scoring : <scoring> Early stopping watches the first: name the metric that
        counts.
    tol : float, default=1e-7
        Least change of the metric that counts as improvement. Raise it to end earlier.
    keep_best : bool, default=True
        Whether the trees after the best round are dropped where early stopping is in use. False
        keeps all that were grown, as scikit-learn does.
    Categories
        Features whose values have no order.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which they are: a mask, positions or names, or those whose column in
        a data frame has a categorical type. A split sends a group of categories to either side:
        the best cut in the order of their mean gradients. Missing values, and categories that
        were not in the training data, go where a split learned to send what is rare or missing.
        More categories than ``max_bins`` share bins (see ``cat_hash_groups``).
    cat_smooth : float or "auto", default="auto"
        Added to the sum of the second derivatives of a category where categories are ordered.
        A category with fewer rows in a node counts as missing there. "auto": 10, or less for a
        feature whose categories with 2 to 9 rows certainly differ: the number of rows that make
        the mean gradient of a category as credible as that of all (the variance within these
        categories / that between them, by a lower confidence limit of 95 %), divided by the share
        of rows in such categories. It is learned before the first tree; a warm start keeps it.
        Raise it where rare categories are overfitted.
    cat_l2 : float, default=0.0
        Added to ``l2_regularization`` where ordered categories are compared with other splits.
        Raise it (10) where features with many categories are chosen too often.
    max_cat_to_onehot : int, default=4
        A feature with at most so many categories is split into one and the others instead.
    cat_hash_groups : int or "auto", default="auto"
        Of a feature with more categories than ``max_bins``, the most frequent have a bin each and
        the others are hashed into so many groups, a bin each, that no split divides. At most
        ``max_bins``: then all are hashed. "auto": categories of similar mean gradients before the
        first tree share bins, which are split in the order of these means. A mean is shrunk by
        its number of rows, and rows of rare categories are binned by the mean of others, so that
        they are not overfitted; hence the loss of training rows is not that of their predictions,
        and a warm start does not continue bit for bit. One group where the means are mostly noise
        (a mean would need more than twice the rows of an average category to be as credible as
        that of all, see ``cat_smooth``), for several outputs, a ``BinnedTable``, ``linear_leaves``
        and ``dropout``.
    Dropout
        DART: rounds that leave out earlier trees, so that later ones are not left with trifles.
    dropout : float, default=0.0
        Probability that each earlier round is dropped when a round computes its gradients (DART;
        Rashmi and Gilad-Bachrach 2015). Its trees then take part of the place of those k rounds,
        see ``normalize_drop``. Predictions always use all trees. Try 0.05 to 0.2 where the first
        trees dominate; training takes longer.
    skip_dropout : float, default=0.0
        Probability that a round drops none. Raise it to train faster.
    max_drop : int or None, default=None
        Most rounds that are dropped together. Set it (50) for models of many rounds.
    uniform_drop : bool, default=True
        Whether all rounds have the same chance. False: in proportion to their weights, the learning
        rate times the factors of later rounds; ``dropout`` is the mean chance.
    normalize_drop : {"tree", "forest"}, default="tree"
        With learning rate r, values of new trees are multiplied by r / (k + r), those of the trees
        left out by k / (k + r) ("tree"), or by r / (1 + r) and 1 / (1 + r) ("forest").
    Running
        Where and how training runs; the model depends on ``random_state`` alone.
    random_state : int, RandomState instance or None, default=None
        Seed of all draws. None is a fixed seed: the same call gives the same model. Pass other
        numbers to see how much a result depends on chance.
    n_jobs : int or None, default=None
        Threads on the CPU; None uses all that the process may use. Lower it to leave processors
        to others.
    device : {"auto", "cpu", "cuda", "array"}, default="auto"
        Where to work. "auto" follows the arrays; host arrays go to a usable GPU if they are large
        enough for that to be faster (``gpuens.show_config()``), else stay.
        "array" works in the array library of X by functions of the Array API standard alone: the
        same model, many times slower.
    verbose : bool or int, default=False
        1 or True prints to standard error where the work runs, the rounds and early stopping that
        were chosen, progress with the metrics, and why the training ended; 2 also the memory that
        it takes. Above 0 the metrics of the training rows are recorded.
    warm_start : bool, default=False
        Whether ``fit`` continues from the existing trees, with the bins and the seed that
        they were grown with. Set it to add rounds by raising ``n_estimators``.
    callbacks : list or None, default=None
        Functions of the state after a round, or objects with ``after_iteration(state)``, see
        ``gpuens.callbacks``. A true result stops the training.

    Attributes
    ----------
    forest_ : Forest
        The trees; ``forest_.fingerprint()`` is the same on every device.
    feature_importances_ : float64, shape (n_features,)
        Share of each feature in the gains of all splits; they add up to 1.
    n_iter_ : int
        Rounds in the model.
    learning_rate_ : float
        The rate that was chosen, where ``learning_rate="auto"``.
    grow_policy_ : str
        The shape of the trees, where rounds were searched for: with "auto" the chosen one.
    best_iteration_ : int
        The round with the best value of the first metric on the first evaluation set, from 1 (0:
        the model without trees); ``n_iter_`` if none was recorded.
    n_trees_per_iteration_ : int
        1, or without ``multi_strategy="multi_output_tree"`` the number of classes where there are
        more than two, or of targets or quantiles.
    do_early_stopping_ : bool
        Whether early stopping was in use.
    evals_result_ : dict
        ``evals_result_[data][metric]``: one value for every round, entry 0 before the first.
        Data are "validation" (rows held out), "validation_0" … (``eval_set``), and "training"
        with ``verbose``, or with early stopping and none of these.
    validation_score_ : ndarray
        The first metric on the first of these, the loss with a minus sign; empty without.
    train_score_ : ndarray
        The first metric on "training", the loss with a minus sign; empty without.
    stopped_ : str
        Why the training ended: "finished", "early stopping", "callback", "interrupted", or
        "error", of a callback.
    n_features_in_ : int
    is_categorical_ : ndarray of bool, shape (n_features,), or None
        Which features are split by categories; None if none is.
    feature_names_in_ : ndarray of str
        Only where X had column names.
    <attributes>"""

SCORING = """str, callable, None or list of these, default="loss"
        Metrics of the evaluation sets: "loss" (lower is better), names of scikit-learn's
        scorers, callables ``(estimator, X, y) -> float`` (higher is better), which are given a
        constant predictor of the rows of ``y``, or metrics of ``gpuens.custom_metrics``. None:
        "accuracy" or "r2"."""
