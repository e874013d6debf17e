select
    i_name,
    substring(i_data from 1 for 3) as brand,
    i_price,
    count(distinct {supplier}) as supplier_cnt
from
    stock,
    item
where
    i_id = s_i_id
    and i_data not like 'zz%'
    and {supplier} not in (
        select
            su_suppkey
        from
            supplier
        where
            su_comment like '%bad%'
    )
group by
    i_name,
    substring(i_data from 1 for 3),
    i_price
order by
    supplier_cnt desc
