"""What is known of the runtime, which is not imported here.

It says so itself, where each name is defined (`meeting.py`); a test holds this table against that.
"""

#: What a rank may call by itself. Whatever else there is lets the ranks meet, or may do so.
BY_ITSELF = frozenset(
    """add_module_prefix compute_whole destroy_process_group device device_ids device_kind draw_alike
    evaluation_loader gpu_index in_one_piece in_order inputs_to_device is_main_process is_sharded local_rank
    main_process_only main_process_open main_process_path map_location per_rank_batch_size per_rank_workers rank
    rank_zero_logging rank_zero_print scale_learning_rate seed_workers_apart set_epoch shard_batch squeeze
    strip_module_prefix training_loader unwrap whole_loader without_mps world_size""".split()
)

#: Where rank 0 waits for nobody, so that it may come there first.
RANK_0_GOES_ON = frozenset(
    "from_main_process call_on_main_process common_seed main_process_first shard_loading".split()
)

IS_FIRST = "distify_runtime.is_main_process"
CALLED_BY_RANK_0 = "distify_runtime.call_on_main_process"
OPENED_BY_RANK_0 = "distify_runtime.main_process_open"
#: What a checklist may ask a person to write, and what is understood where it stands. Who uses more of the runtime
#: than that has been converted.
BY_HAND = frozenset(
    """barrier call_on_main_process from_main_process is_main_process local_rank main_process_open rank
    rank_zero_print world_size""".split()
)
